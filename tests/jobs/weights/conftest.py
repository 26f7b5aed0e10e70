"""One whole recipe, played once for all who look at it."""

import asyncio

import pytest
import torch

from rl_world import Notebook, ObedientMaker, Tutor, Visitor, lanes_config, recipe


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A recipe with a policy that follows its skills: folder, report, and who took part."""
    config = lanes_config(tmp_path_factory.mktemp("whole"))
    seen = {
        "config": config,
        "visitor": Visitor(),
        "tutor": Tutor(),
        "notes": Notebook(),
        "maker": ObedientMaker(config),
    }
    who = {name: seen[name] for name in ("visitor", "tutor", "maker")}
    path, report = asyncio.run(recipe(config, seen["notes"], **who))
    return {**seen, "path": path, "report": report}

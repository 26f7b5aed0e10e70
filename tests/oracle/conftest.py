"""The official ALFWorld engine, where `make oracle` has installed it."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from official_games import to_game_json
from skillwright.worlds.alfworld import Problem


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The official packages, and the domain and grammar that they ship.

    Without the packages this fails rather than skips: a run that compared nothing proves nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Importing alfworld makes this folder, and without the variable it is in the user's home.
        patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("alfworld")))
        try:
            textworld = importlib.import_module("textworld")
            paths = importlib.import_module("alfworld.info")
            wrappers = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
        except ModuleNotFoundError as error:
            pytest.fail(f"no official engine here ({error}); run these tests with 'make oracle'")
    return SimpleNamespace(
        textworld=textworld,
        demangler=wrappers.AlfredDemangler,
        domain=Path(paths.ALFRED_PDDL_PATH).read_text(encoding="utf-8"),
        grammar=Path(paths.ALFRED_TWL2_PATH).read_text(encoding="utf-8"),
    )


@pytest.fixture
def open_game(official: SimpleNamespace, tmp_path: Path) -> Callable[[Problem], Any]:
    """Write one of our games as an official file, and open it as ALFWorld opens its own."""

    def open_officially(problem: Problem) -> Any:
        path = tmp_path / "game.tw-pddl"
        game = to_game_json(problem, official.domain, official.grammar)
        path.write_text(json.dumps(game), encoding="utf-8")
        wanted = official.textworld.EnvInfos(won=True, admissible_commands=True)
        return official.textworld.start(str(path), wanted, [official.demangler()])

    return open_officially

"""SkillOpt's own six benchmarks, by name and unchanged, where its package is installed.

`make oracle` runs this. What the package on the index leaves out (prompt files, ALFWorld's
settings) is added to a copy of it, in words of ours; where it is there, it is used.
"""

import importlib
import json
import shutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest
import yaml
from skillopt_worlds import (
    RULE,
    agent,
    alfworld,
    docvqa,
    livemathematicianbench,
    officeqa,
    searchqa,
    spreadsheetbench,
)
from typer.testing import CliRunner

from doors import Coach, look
from mock_openai import answer_with
from served import served
from skillwright.cli.app import app
from skillwright.core import Completion

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """A copy of the installed package, first on the path.

    Without the package this fails rather than skips: a run that tried nothing proves nothing.
    """
    found = PathFinder.find_spec("skillopt")
    if found is None:
        pytest.fail("the package skillopt is not installed; run these tests with 'make oracle'")
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(next(iter(found.submodule_search_locations)), site / "skillopt")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        # Importing alfworld makes this folder, and without the variable it is in the user's home.
        patch.setenv("ALFWORLD_DATA", str(tmp_path_factory.mktemp("alfworld")))
        yield site / "skillopt"


class Teacher(Coach):
    """Proposes the rule, once it is asked for more than a sign of life."""

    def __init__(self):
        super().__init__([[RULE]])

    async def complete(self, messages, **kwargs):
        return await super().complete(messages, **kwargs) if messages[1:] else Completion("ready")


def completed(package, benchmark):
    """Add what the installed package lacks."""
    folder = package / "envs" / benchmark.name
    prompts = {f"prompts/{name}.md": text for name, text in benchmark.prompts.items()}
    for name, text in {**prompts, **benchmark.files}.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


def official_alfworld(folder):
    paths = importlib.import_module("alfworld.info")
    importlib.import_module("alfworld.agents.environment.alfred_tw_env")  # before it is forked
    domain, grammar = (
        Path(p).read_text() for p in (paths.ALFRED_PDDL_PATH, paths.ALFRED_TWL2_PATH)
    )
    return alfworld(folder, domain, grammar)


WORLDS = [
    official_alfworld,
    docvqa,
    livemathematicianbench,
    officeqa,
    searchqa,
    spreadsheetbench,
]


@pytest.mark.parametrize("make", WORLDS, ids=lambda make: make.__name__)
def test_one_of_their_benchmarks_is_trained_by_name(tmp_path, package, monkeypatch, make):
    benchmark = make(tmp_path / "data")
    completed(package, benchmark)
    for name, value in benchmark.environ.items():
        monkeypatch.setenv(name, value)
    play, teach = agent(benchmark), answer_with(Teacher())

    async def answer(body):
        return await (teach(body) if body["model"] == "teacher" else play(body))

    with served(answer) as server:
        config = {
            "model": {
                "optimizer": "teacher",
                "target": "agent",
                "azure_openai_endpoint": server.base_url,
                "azure_openai_auth_mode": "openai_compatible",
                "azure_openai_api_key": server.api_key,
            },
            "train": {"num_epochs": 1, "batch_size": 4},
            "optimizer": {"use_slow_update": False, "use_meta_skill": False},
            "env": {
                "name": benchmark.name,
                "out_root": str(tmp_path / "runs" / "theirs"),
                "workers": 2,
                **benchmark.env,
            },
        }
        path = tmp_path / "theirs.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        words = ["train", str(path), "--adapter", benchmark.adapter, "--compat", "skillopt"]
        result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    tables = report["test"]["tables"]
    assert tables["initial"]["overall"]["success_rate"] == 0.5
    assert tables["best"]["overall"]["success_rate"] == 1.0
    with look(Path(report["run"])) as store:
        assert [one.failure for one in store.episodes() if one.failure is not None] == []
    assert not [name for name in sys.modules if name.partition(".")[0] == "skillopt"]

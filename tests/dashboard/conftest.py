"""A trained run behind the pages, and a store full of hostile text."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_config, trained
from paged import CONFIG, HOSTILE, TOKEN, played, run_apart
from rl_world import Notebook, Stopped, lanes_config, recipe
from skillwright.cli.app import app as commands
from skillwright.dashboard import make_app
from skillwright.dashboard.app import COOKIE
from skillwright.jobs.run import StepDecided
from skillwright.jobs.weights import Validated
from skillwright.runs import RunStore


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory):
    """The folder of runs, with one that the command line trained."""
    root = tmp_path_factory.mktemp("shown") / "runs"
    config = root.parent / "trained.yaml"
    config.write_text(CONFIG.replace("ROOT", str(root)), encoding="utf-8")
    result = CliRunner().invoke(commands, ["train", str(config)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return root


@pytest.fixture(scope="session")
def rows_once(tmp_path_factory):
    """The folder of a run on rows with right answers, ``rows``."""
    root = tmp_path_factory.mktemp("rows") / "runs"
    config = root.parent / "rows.yaml"
    messages = Path(__file__).parents[2] / "examples" / "table_data" / "messages.csv"
    for words in (
        ("init", messages, "--offline", "--yes", "--to", config),
        ("train", config, "--limit", "20", "--set", "train.epochs=1", "--set", f"run.root={root}"),
    ):
        with ThreadPoolExecutor(1) as apart:  # a browser's event loop runs in this thread
            result = apart.submit(CliRunner().invoke, commands, list(map(str, words))).result()
        assert result.exit_code == 0, result.output
    return root / "rows"


class _StopsAt(Notebook):
    """Ends the process's work at the first event of a kind, as Ctrl-C would."""

    def __init__(self, kind):
        super().__init__()
        self._kind = kind

    def on_event(self, event):
        super().on_event(event)
        if isinstance(event, self._kind):
            raise Stopped


@pytest.fixture(scope="session")
def stopped_once(tmp_path_factory):
    """The folder of two runs that were stopped: ``text`` and ``weights``."""
    folder = tmp_path_factory.mktemp("stopped")
    text = doors_config(folder, run={"name": "text"})
    coach = Coach([[ALL_RULES]])
    with pytest.raises(Stopped):
        run_apart(trained(text, Walker(), coach, callback=_StopsAt(StepDecided)))
    weights = lanes_config(folder, run={"name": "weights"})
    with pytest.raises(Stopped):
        run_apart(recipe(weights, _StopsAt(Validated)))
    return folder / "runs"


@pytest.fixture
def root(trained_once, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(trained_once, tmp_path / "runs")


@pytest.fixture
def cli_words():
    """Run a command that ends well."""

    def run(*words):
        result = CliRunner().invoke(commands, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return run


@pytest.fixture
def pages(root):
    """Ask for pages as a browser that has the token."""
    with TestClient(make_app(root, token=TOKEN), base_url="http://127.0.0.1:8000") as client:
        client.cookies.set(COOKIE.format(port=8000), TOKEN)
        yield client


@pytest.fixture
def hostile(root):
    """Add a scored and a failed episode whose every text wants to be run; return their numbers."""
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        scored = store.record_episode(played(901, HOSTILE, turns=3))
        failed = store.record_episode(played(902, "x", failure=HOSTILE, task="task-2"))
    return scored, failed

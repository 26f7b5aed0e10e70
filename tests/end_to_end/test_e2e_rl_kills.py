"""The recipe, killed with SIGKILL at ten random moments, ends as one that nobody disturbed."""

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rl_killed import LATER, config_of
from rl_world import Notebook, Tutor, recipe, story

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")

SCRIPT = Path(__file__).resolve().parents[1] / "rl_killed.py"
KILLS = 10


def live(tasks, root, moment):
    """Run a process until it ends or kills itself; tell whether it was killed."""
    words = [sys.executable, str(SCRIPT), str(tasks), str(root), str(moment)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    torch.set_num_threads(1)
    tasks, notes = tmp_path_factory.mktemp("tasks"), Notebook()
    config = config_of(tasks, tmp_path_factory.mktemp("whole"))
    path, report = asyncio.run(recipe(config, notes, tutor=Tutor(later=LATER)))
    assert report.state.finished
    return tasks, story(path), len(notes.events)


@pytest.mark.heavy
def test_ten_kills_of_one_run_change_nothing(undisturbed, tmp_path):
    tasks, whole, events = undisturbed
    rng = random.Random(5)
    for _ in range(KILLS):
        assert live(tasks, tmp_path, rng.randint(1, events // 6))
    assert not live(tasks, tmp_path, 0)
    assert story(tmp_path / "lanes") == whole


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.heavy)])
def test_a_kill_at_a_random_moment_changes_nothing(undisturbed, tmp_path, kills):
    tasks, whole, events = undisturbed
    for moment in random.Random(9).sample(range(1, events), kills):
        root = tmp_path / str(moment)
        assert live(tasks, root, moment)
        assert not live(tasks, root, 0)
        assert story(root / "lanes") == whole, moment

"""A process that plays an adapter may die or be interrupted at any moment; signals are POSIX's."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from doors import look, story, write_tasks
from dying import command
from somebodys import Documented, adapter_settings

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no SIGKILL and no FIFOs"
)
COMMAND = Path(sys.executable).with_name("skillwright")

MORTAL = '''
import os, signal, time
from dying import moment
from somebodys import Documented

class Mortal(Documented):
    """Writes down every rollout; kills its process at the one that it is told."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        log = os.environ["ROLLOUTS"]
        with open(log, "a") as file:
            file.write(out_dir.partition("/adapter/")[2] + "\\n")
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        if len(open(log).read().splitlines()) == int(os.environ["DIES_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

class Noting(Documented):
    """Writes down every rollout; each of its items and questions is a moment to die at."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        with open(os.environ["ROLLOUTS"], "a") as file:
            file.write(out_dir.partition("/adapter/")[2] + "\\n")
        rows = []
        for item in env_manager:
            moment("item")
            rows += super().rollout([item], skill_content, out_dir, **kwargs)
        moment("rolled-out")
        return rows

    def reflect(self, results, skill_content, out_dir, **kwargs):
        moment("reflecting")
        return super().reflect(results, skill_content, out_dir, **kwargs)

class Stuck(Documented):
    """Says that it has begun, and never comes back."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        with open(os.environ["BEGUN"], "w") as fifo:
            fifo.write("begun")
        while True:
            time.sleep(3600)
'''


def prepared(tmp_path, adapter):
    """Write the adapter, its data and its configuration; return the environment to run in."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "mortal.py").write_text(MORTAL, encoding="utf-8")
    write_tasks(tmp_path / "tasks")
    settings = adapter_settings(tmp_path, Documented, train={"epochs": 2})
    settings["env"]["name"] = f"mortal.py:{adapter}"
    settings["env"]["config"] = {"split_dir": "tasks"}
    settings["run"]["root"] = "runs"
    (tmp_path / "own.yaml").write_text(json.dumps(settings), encoding="utf-8")
    tests = str(Path(__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": tests, "ROLLOUTS": str(tmp_path / "rollouts.log")}


def ran(folder, env, dies_at, *words):
    """Run a command to its end or its death; return the exit code."""
    process = subprocess.run(
        [COMMAND, *words],
        cwd=folder,
        env={**env, "DIES_AT": str(dies_at)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, -signal.SIGKILL), process.stderr
    return process.returncode


@pytest.mark.parametrize("deaths", [(3,), pytest.param((1, 3, 5, 9), marks=pytest.mark.heavy)])
def test_a_killed_process_loses_no_batch_and_tells_the_same_story(tmp_path, deaths):
    env = prepared(tmp_path / "whole", "Mortal")
    assert ran(tmp_path / "whole", env, 0, "train", "own.yaml") == 0
    wanted = story(tmp_path / "whole" / "runs" / "doors")
    env = prepared(tmp_path / "killed", "Mortal")
    path = tmp_path / "killed" / "runs" / "doors"
    words, log = ["train", "own.yaml"], Path(env["ROLLOUTS"])
    for dies_at in deaths:  # each time within a later rollout
        assert ran(tmp_path / "killed", env, dies_at, *words) == -signal.SIGKILL
        words = ["resume", "runs/doors"]
    assert ran(tmp_path / "killed", env, 0, *words) == 0
    assert story(path) == wanted
    played = log.read_text(encoding="utf-8").splitlines()
    with look(path) as store:
        batches = [event.payload["folder"] for event in store.events("adapter_batch")]
    # The rollouts that a death cut short were begun again, and no others.
    assert len(played) == len(batches) + len(deaths)
    assert len(set(batches)) == len(batches)


def batches_of(path):
    """Return the batches that a run has the results of, in order."""
    if not (path / "run.sqlite").is_file():
        return []
    with look(path) as store:
        return [event.payload["folder"] for event in store.events("adapter_batch")]


@pytest.mark.heavy
def test_twenty_kills_lose_no_batch_and_play_none_again(tmp_path):
    env = prepared(tmp_path / "whole", "Noting")
    _, moments = command(["train", "own.yaml"], tmp_path / "whole", env=env)
    whole = tmp_path / "whole" / "runs" / "doors"
    folder = tmp_path / "killed"
    env = prepared(folder, "Noting")
    path, log = folder / "runs" / "doors", Path(env["ROLLOUTS"])
    # A batch is kept as a whole, so a life must be long enough for the largest, of 24 items.
    rng, kills, code, kept = random.Random(4), 0, -signal.SIGKILL, []
    while code:
        begun = (path / "config.yaml").is_file()
        played = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
        dies_at = rng.randint(1, len(moments) // 8) if kills < 20 else 0
        words = ["resume", "runs/doors"] if begun else ["train", "own.yaml"]
        code, _ = command(words, folder, dies_at=dies_at, env=env)
        again = log.read_text(encoding="utf-8").splitlines()[len(played) :] if log.is_file() else []
        assert not set(again) & set(kept)  # what was complete is not played again
        now = batches_of(path)
        assert now[: len(kept)] == kept  # and not lost
        kills, kept = kills + (code != 0), now
    assert kills == 20
    assert story(path) == story(whole)
    assert kept == batches_of(whole)


def test_ctrl_c_ends_a_process_whose_adapter_never_comes_back(tmp_path):
    env = prepared(tmp_path, "Stuck")
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [COMMAND, "train", "own.yaml"],
        cwd=tmp_path,
        env={**env, "BEGUN": str(fifo)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with fifo.open(encoding="utf-8") as begun:
            assert begun.read() == "begun"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "skillwright resume" in said

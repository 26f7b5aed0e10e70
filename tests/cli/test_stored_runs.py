"""Runs and a bank that an older commit stored open, resume and evolve as if nothing had changed.

`tests/stored/november_2026.tar.xz` holds two runs that were killed halfway, a distilled bank, and
the configurations they were made from (commit a808104); `november_2026.json` holds how that commit
ended the runs when they were resumed.
"""

import json
import tarfile
from pathlib import Path

import pytest

STORED = Path(__file__).resolve().parent.parent / "stored"
ENDED = json.loads((STORED / "november_2026.json").read_text(encoding="utf-8"))


@pytest.fixture
def stored(tmp_path):
    """The stored files, unpacked where the commands run."""
    with tarfile.open(STORED / "november_2026.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def shown(cli, name):
    return json.loads(cli("runs", "show", name, "--root", ".", "--json").stdout)


def how_text_ended(run, folder):
    return {
        "actions": [step["action"] for step in run["steps"]],
        "best_version": run["best_version"],
        "gains": run["test"]["gains"],
        "best_skill": (folder / "text" / "best_skill.md").read_text(encoding="utf-8"),
    }


def how_weights_ended(run):
    rl = run["rl"]
    return {
        "rewards": [iteration["reward"] for iteration in rl["iterations"]],
        "evolutions": [round_["action"] for round_ in rl["evolutions"]],
        "tested": rl["best_iteration"],
        "gains": rl["test"]["gains"],
        "release": rl["release"]["decision"],
    }


def test_a_stored_text_run_resumes_with_the_decisions_of_its_own_commit(cli, stored):
    assert not shown(cli, "text")["finished"]
    cli("resume", "text", "--root", ".")
    assert how_text_ended(shown(cli, "text"), stored) == ENDED["text"]


@pytest.mark.parametrize(("name", "episodes"), [("text", 68), ("weights", 220)])
def test_what_an_older_commit_recorded_is_replayed_to_the_last_value(cli, stored, name, episodes):
    found = json.loads(cli("replay", name, "--root", ".", "--json").stdout)
    assert (found["equal"], found["differing"], found["not_replayed"]) == (episodes, 0, 0)


@pytest.mark.heavy
def test_a_stored_run_of_weights_resumes_with_the_decisions_of_its_own_commit(cli, stored):
    assert not shown(cli, "weights")["finished"]
    cli("resume", "weights", "--root", ".")
    assert how_weights_ended(shown(cli, "weights")) == ENDED["weights"]


def test_the_episodes_of_a_stored_run_are_listed_and_shown(cli, stored):
    rows = json.loads(cli("runs", "episodes", "text", "--root", ".", "--json").stdout)
    seen = cli("runs", "view", "text", rows[0]["key"], "--root", ".").stdout
    assert rows[0]["task_id"] in seen


def test_a_stored_bank_opens_and_evolves(cli, stored):
    before = json.loads(cli("bank", "log", "--bank", "bank.sqlite", "--json").stdout)
    cli("bank", "evolve", "bank.yaml", "--bank", "bank.sqlite", "--rounds", "1")
    after = json.loads(cli("bank", "log", "--bank", "bank.sqlite", "--json").stdout)
    assert len(before) == 1
    assert len(after) > len(before)

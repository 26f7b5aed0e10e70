"""`runs episodes --flipped`: what one of two versions solved and the other did not, both sides."""

import json
from collections import defaultdict
from statistics import fmean

import pytest
from typer.testing import CliRunner

from paged import CONFIG
from skillwright.cli.app import app


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A training in houses, and an evaluation beside it."""
    folder = tmp_path_factory.mktemp("flipped")
    path = folder / "trained.yaml"
    path.write_text(CONFIG.replace("ROOT", str(folder / "runs")), encoding="utf-8")
    for words in (("train", path), ("eval", path, "--set", "run.name=measured")):
        result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return folder / "runs"


@pytest.fixture
def ask(root):
    """List the flipped tasks of a run."""

    def run(*words, name="trained", code=0):
        asked = ["runs", "episodes", name, "--flipped", "--root", str(root), *words]
        result = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if "--json" in words else result

    return run


def flipped(episodes, split, first, last):
    """Find out from the rows of all episodes which tasks flipped between two texts."""
    rows = [one for one in episodes if one["split"] == split and one["reward"] is not None]
    sides = defaultdict(lambda: ({}, {}))
    for one in rows:
        for side, text in enumerate((first, last)):
            if one["skill_version"] == text:
                sides[one["task_id"]][side][one["seed"]] = one["solved"]
    found = {}
    for task, (before, after) in sides.items():
        common = before.keys() & after.keys()
        if common:
            rates = [fmean(side[seed] for seed in common) for side in (before, after)]
            if (rates[0] >= 0.5) != (rates[1] >= 0.5):
                found[task] = "+" if rates[1] > rates[0] else "-"
    return found


@pytest.fixture
def every(root):
    words = ["runs", "episodes", "trained", "--root", str(root), "--json"]
    return json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)


@pytest.mark.parametrize("split", ["val", "test"])
def test_flipped_tasks_are_those_that_the_stored_rewards_say(ask, every, split):
    rows = ask("--split", split, "--json")
    assert rows
    first, last = (rows[0][side]["skill_version"] for side in ("before", "after"))
    listed = {one["task_id"]: one["change"] for one in rows}
    assert listed == flipped(every, split, first, last)
    for one in rows:
        before, after = one["before"], one["after"]
        assert before["seed"] == after["seed"]  # the same draw
        assert (before["solved"] < after["solved"]) == (one["change"] == "+")


def test_without_a_split_the_test_decides_as_a_comparison_of_both_skills_does(ask, root):
    words = ["compare", "trained", "trained", "--skill-a", "initial", "--root", str(root), "--json"]
    compared = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)
    rows = ask("--json")
    for change, key in (("+", "now_solved"), ("-", "no_longer_solved")):
        assert {one["task_id"] for one in rows if one["change"] == change} == set(compared[key])


def test_a_line_has_the_task_and_both_episodes_with_their_rewards(ask):
    (row, *_), said = ask("--json"), ask().stdout
    (line,) = [one for one in said.splitlines() if row["task_id"] in one.split()]
    mark = row["change"]
    before, after = row["before"], row["after"]
    for words in (mark, f"{before['episode']} 0", f"{after['episode']} 1"):
        assert words in line
    assert "flipped on test from initial to released" in " ".join(said.split())
    assert max(map(len, said.splitlines()[1:])) <= 80


def test_options_narrow_the_list_down_together(ask):
    rows = ask("--json")
    task, task_type = rows[0]["task_id"], rows[0]["task_type"]
    of_type = [one for one in rows if one["task_type"] == task_type]
    assert ask("--type", task_type, "--json") == of_type
    assert ask("--task", task, "--json") == [rows[0]]
    assert ask("--unsolved", "--json") == [one for one in rows if one["change"] == "-"]
    found = ask("--grep", task.upper(), "--json")
    assert [one["task_id"] for one in found] == [task]
    assert task in found[0]["match"]
    assert ask("--grep", "said by nobody", "--json") == []
    assert len(ask("--limit", "1", "--json")) == 1


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("measured", (), "an evaluation of one skill"),
        ("trained", ("--faults",), "--faults chooses among episodes of any"),
        ("trained", ("--step", "1"), "--step chooses among episodes of any"),
        ("trained", ("--split", "train"), "--split val or --split test"),
        ("trained", ("--type", "pick_one"), "no episode of task type 'pick_one'"),
        ("trainer", (), "no run 'trainer'"),
    ],
)
def test_what_cannot_flip_is_refused_with_the_next_move(ask, name, words, said):
    refused = ask(*words, name=name, code=2)
    assert said in " ".join(refused.stderr.split())

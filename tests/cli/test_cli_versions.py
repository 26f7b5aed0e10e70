"""Versions of a trained skill: listed, shown, restored, and named in every command."""

import json
import re

import pytest

import skillwright as sw
from doors import ALL_RULES, Coach, Walker, doors_config, trained
from skillwright.jobs.text import restore as state_of
from skillwright.jobs.text import start_run
from skillwright.runs import RunStore


@pytest.fixture
async def run(tmp_path):
    """A run whose first candidate is kept and whose second one is dropped."""
    config = doors_config(tmp_path)
    wrong = ALL_RULES.replace("door 4", "door 1")
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], [wrong]]))
    return path


def rows(cli, run):
    return json.loads(cli("skill", "log", run, "--json").stdout)


def test_the_log_lists_each_version_with_its_step_verdict_gain_and_score(cli, run):
    first, kept, *others = rows(cli, run)
    assert (first["version"], first["outcome"], first["gain"]) == (0, "initial", None)
    assert (kept["origin"], kept["outcome"], kept["step"]) == ("step 1", "kept", 1)
    assert kept["gain"] > 0.3
    assert kept["score"] > first["score"]
    assert {one["outcome"] for one in others} <= {"dropped", "kept"}
    assert [one["version"] for one in (first, kept, *others) if one["is_best"]] == [1]
    shown = cli("skill", "log", run).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "released,\n" in re.sub(" +\n", "\n", shown)
    assert re.search(r" points +95% +val ", shown)
    assert "release  proven" in shown


@pytest.mark.parametrize("name", ["1", "v1", "best", "current"])
def test_a_version_is_shown_as_it_is(cli, run, name):
    assert cli("skill", "show", f"doors@{name}").stdout == f"{ALL_RULES}\n"
    found = json.loads(cli("skill", "show", f"{run}@{name}", "--json").stdout)
    assert (found["version"], found["text"].strip()) == (1, ALL_RULES)


def test_an_empty_version_is_said_to_be_empty(cli, run):
    shown = cli("skill", "show", "doors@0")
    assert shown.stdout == ""
    assert "this version is empty" in shown.stderr


def test_a_restored_version_is_what_the_run_releases_until_another_is_restored(cli, run):
    cli("skill", "restore", "doors@0")
    assert (run / "best_skill.md").read_text() == ""
    assert sw.open(run).skill == ""
    assert cli("skill", "show", "doors").stdout == ""
    assert [one["version"] for one in rows(cli, run) if one["is_best"]] == [0]
    shown = " ".join(cli("runs", "show", "doors").stdout.split())
    assert "Version 0 is released: it was restored by hand." in shown
    assert "are those of version 1" in shown
    again = cli("skill", "restore", "doors@0")
    assert "nothing changes" in again.stderr + again.stdout
    cli("skill", "restore", "doors@1")
    assert (run / "best_skill.md").read_text().strip() == ALL_RULES
    assert "restored by hand" not in cli("runs", "show", "doors").stdout
    # Its proof is what it was, and resuming the finished run changes nothing.
    cli("skill", "export", "doors", "--output", "out")
    assert "Proven better" in cli("verify", "out").stdout
    cli("resume", "doors")
    assert (run / "best_skill.md").read_text().strip() == ALL_RULES


def test_a_restored_version_that_nothing_proved_is_exported_without_a_claim(cli, tmp_path, run):
    assert rows(cli, run)[2]["outcome"] == "dropped"
    cli("skill", "restore", "doors@2")
    made = json.loads(cli("skill", "export", "doors", "--output", "out", "--json").stdout)
    assert made["facts"]["proven"] == "no"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("doors@99", "there is no version 99; there are doors@0 to doors@2"),
        ("doors@three", "'three' is no version; a version is a number, best or current"),
        ("doors@-1", "'-1' is no version"),
        ("doors@", "'' is no version"),
        ("dors@1", "Did you mean 'doors'?"),
    ],
)
@pytest.mark.parametrize("command", ["show", "restore", "blame"])
def test_an_unknown_version_is_refused_with_those_that_are_there(cli, run, command, version, said):
    assert said in cli("skill", command, version, code=2).stderr


async def test_a_run_that_is_not_finished_is_not_restored(cli, tmp_path):
    with start_run(doors_config(tmp_path), "Knock first.\n") as begun:
        place = begun.folder.path
    said = cli("skill", "restore", f"{place}@0", code=2).stderr
    assert "is not finished" in said
    assert "skillwright skill export doors@0" in said
    with RunStore.open(place / "run.sqlite", read_only=True) as store:
        assert state_of(doors_config(tmp_path), store).restored_from is None


def test_the_python_run_lists_its_candidates_with_scores(run):
    first, kept, *_ = sw.open(run).versions()
    assert (first["text"], kept["text"].strip()) == ("", ALL_RULES)
    assert kept["score"] > first["score"]

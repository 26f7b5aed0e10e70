"""``latest`` names the run that began last, wherever a run is named."""

import json
import os

import pytest


@pytest.fixture
def runs(cli, write_config):
    """Two evaluations: ``b``, and after it ``a``, whose files look older."""
    config = write_config()
    for name in ("b", "a"):
        cli("eval", config, "--set", f"run.name={name}")
    os.utime("runs/a/config.yaml", (0, 0))  # a copy or a clone changes it; it decides nothing
    return cli


def test_every_command_that_takes_a_run_takes_the_latest(runs):
    assert json.loads(runs("runs", "show", "latest", "--json").stdout)["name"] == "a"
    assert runs("runs", "episodes", "latest").stdout.startswith("a  ")
    assert "in run a\n" in runs("runs", "view", "latest", "e1").stdout
    assert runs("resume", "latest").stdout == runs("resume", "a").stdout
    compared = json.loads(runs("compare", "b", "latest", "--json").stdout)
    assert compared["b"]["run"] == "a"
    assert runs("replay", "latest").stdout.startswith("a: 12 episodes as recorded")
    assert "12 as before" in runs("regrade", "latest").stdout


def test_a_run_that_is_called_latest_is_meant_by_its_name(runs, write_config):
    runs("eval", write_config(), "--set", "run.name=latest")
    runs("eval", write_config(), "--set", "run.name=c")
    assert json.loads(runs("runs", "show", "latest", "--json").stdout)["name"] == "latest"


def test_the_latest_may_be_a_study_or_one_of_its_runs(runs, write_config):
    runs("train", write_config(), "--set", "run.name=study", "--seeds", 2)
    assert len(json.loads(runs("runs", "show", "latest", "--json").stdout)["seeds"]) == 2
    assert runs("runs", "episodes", "latest").stdout.startswith("seed_")
    runs("eval", write_config(), "--set", "run.name=c")
    assert json.loads(runs("runs", "show", "latest", "--json").stdout)["name"] == "c"


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "show", "latest"),
        ("runs", "episodes", "latest"),
        ("runs", "view", "latest", "e1"),
        ("resume", "latest"),
        ("regrade", "latest"),
    ],
)
def test_where_there_is_no_run_the_message_says_so(refused, words):
    said = " ".join(refused(*words).split())
    assert "there is no run in 'runs', so 'latest' names none" in said
    assert "--root" in said
    assert "skillwright demo" in said


def test_a_latest_run_that_cannot_be_read_is_not_passed_over(runs, tmp_path):
    broken = tmp_path / "runs" / "broken"
    broken.mkdir()
    (broken / "config.yaml").write_text("{}", encoding="utf-8")
    (broken / "run.sqlite").write_text("no database", encoding="utf-8")
    assert "runs/broken" in runs("runs", "episodes", "latest", code=2).stderr

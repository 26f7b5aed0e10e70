"""The commands around `--seeds` and `--parity`, and what `resume` leaves alone."""

import json
from pathlib import Path

import pytest

import skillwright.cli.training as training
from shown import pipe
from skillwright.cli.tables import show_study
from skillwright.jobs.inspect import RunSummary, SeedResult, StudySummary
from skillwright.plugins.skillopt.parity import DIFFERENCES


def test_seeds_are_trained_listed_shown_and_gone_on_with(cli, write_config):
    said = cli("train", write_config(), "--seeds", 2).stdout
    for words in ("seed_42", "seed_43", "of tasks solved, 2 seeds", "Scripted"):
        assert words in said
    (row,) = json.loads(cli("runs", "list", "--json").stdout)
    assert (row["name"], row["job"], row["finished"]) == ("doors", "study", True)
    listed = " ".join(cli("runs", "list").stdout.split())
    assert "study 2/2" in listed
    shown = cli("runs", "show", "doors").stdout
    assert "seed" in shown
    assert "initial" in shown
    report = json.loads(cli("runs", "show", "doors", "--json").stdout)
    assert [one["seed"] for one in report["seeds"]] == [42, 43]
    again = json.loads(cli("resume", "doors", "--json").stdout)
    assert again == report
    seed = cli("runs", "show", "doors/seed_42", "--skillopt").stdout
    assert "How it differs from SkillOpt" in seed
    assert "default mode: 13 settings differ" in seed
    assert "evaluation.gate.kind explore (there strict)" in seed


def test_seeds_as_json_are_one_object(cli, write_config):
    result = cli("train", write_config(), "--seeds", 2, "--json")
    assert json.loads(result.stdout)["job"] == "study"
    assert "initial skill on val:" in result.stderr


def test_a_count_of_seeds_that_is_no_study_is_refused(cli, write_config):
    assert "--seeds" in cli("train", write_config(), "--seeds", 1, code=2).stderr


def test_parity_is_said_and_a_setting_by_name_has_the_last_word(cli, write_config):
    path = write_config()
    said = cli("train", path, "--parity", "--set", "optimizer.gate_slow_update=true").stdout
    mode = "parity mode: SkillOpt's defaults (14 settings); 13 deliberate differences remain, "
    assert f"{mode}1 overridden" in said
    assert "optimizer.gate_slow_update" not in said  # one line at the start; the list is below
    again = cli("train", path, "--parity", "--set", "run.parity=false").stdout
    assert "settings differ" not in again  # `doctor --parity` lists them
    shown = " ".join(cli("runs", "show", "doors").stdout.split())
    assert f"{mode}1 overridden optimizer.gate_slow_update true (there false)" in shown
    assert "not done in any mode: prompts are never cut" in shown
    facts = json.loads(cli("runs", "show", "doors", "--json").stdout)["mode"]
    assert (facts["mode"], list(facts["differs_from_skillopt"])) == (
        "parity",
        ["optimizer.gate_slow_update"],
    )


def test_doctor_prints_where_a_configuration_stands(cli, write_config):
    path = write_config(evaluation={"empty_baseline": False})
    assert "Kept out on purpose" not in cli("doctor", path).stdout
    shown = cli("doctor", path, "--parity").stdout
    assert "│" not in shown
    said = " ".join(shown.split())
    for words in ("Kept out on purpose", "prompts are never cut", "empty_baseline false"):
        assert words in said
    assert all(row.key in said for row in DIFFERENCES if "fresh" not in row.key and not row.below)
    assert "Kept out on purpose" in cli("doctor", "--parity").stdout
    findings = json.loads(cli("doctor", path, "--set", "run.parity=true", "--json").stdout)
    assert "mode" in {finding["name"] for finding in findings}


@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_finished_run_is_resumed_without_asking_anybody(cli, write_config, monkeypatch, command):
    first = json.loads(cli(command, write_config(), "--json").stdout)

    async def refuse(*_):
        raise AssertionError("a finished run needs no preflight")

    monkeypatch.setattr(training, "preflight", refuse)
    assert json.loads(cli("resume", "doors", "--json").stdout) == first


def test_the_spread_of_the_seeds_is_said_only_where_there_is_one():
    def said(*gains):
        run = RunSummary(name="r", path=Path("r"), job="train")
        seeds = tuple(SeedResult(run, 42 + n, gain=gain) for n, gain in enumerate(gains))
        console = pipe()
        show_study(console, StudySummary("s", Path("s"), seeds))
        return console.file.getvalue()

    assert "highest +50.0 (seed 43), lowest +25.0 (seed 42)" in said(0.25, 0.5)
    alike = said(1.0, 1.0)
    assert "+100.0" in alike
    assert "highest" not in alike

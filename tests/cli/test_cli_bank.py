"""``skillwright bank`` end to end: distill, look and evolve, by small games of generated houses."""

import io
import json

import pytest
from rich.console import Console

from bank_doors import bank_file
from skillwright.bank import BankStore, Refine, Retire
from skillwright.cli.bank_tables import show_evolution
from skillwright.jobs.bank.evolve import EvolutionRound, EvolveReport

SETTINGS = {
    "run": {"name": "home"},
    "env": {"name": "alfworld", "data": {"kind": "generated", "train": 36, "val": 24, "test": 12}},
    "models": {
        "target": {"backend": "scripted", "model": "household"},
        "optimizer": {"backend": "scripted", "model": "analyst"},
        "teacher": {"backend": "scripted", "model": "household_teacher"},
    },
    "train": {"epochs": 1, "batch_size": 36},
    "evaluation": {"gate": {"kind": "strict"}},
    "evolve": {"nth": 2, "trigger_accuracy": 0.9},
}


@pytest.fixture
def home(tmp_path):
    """Write a configuration of generated houses."""
    path = tmp_path / "home.yaml"
    path.write_text(json.dumps(SETTINGS), encoding="utf-8")
    return path


@pytest.fixture
def doors_bank(tmp_path):
    """Make a bank that knows the doors of three rooms."""
    return bank_file(tmp_path / "bank.sqlite")


def test_a_bank_is_distilled_told_and_evolved(cli, home):
    made = json.loads(cli("bank", "distill", home, "--json").stdout)
    assert (made["before"], made["version"], made["episodes"]) == (0, 1, 18)
    assert made["compression"]["raw"] > 10
    assert made["is_scripted"]

    def won(*words):
        return json.loads(cli("eval", home, *words, "--json").stdout)["table"]["overall"]

    without, told = won(), won("--set", "skill.bank=bank.sqlite")
    assert told["success_rate"] > without["success_rate"] + 0.3

    report = json.loads(cli("bank", "evolve", home, "--rounds", 2, "--json").stdout)
    assert [one["number"] for one in report["rounds"]] == [1, 2]
    assert all(one["success"] for one in report["rounds"])
    shown = json.loads(cli("bank", "stats", "--json").stdout)
    assert shown["compression"]["raw_ratio"] > 10
    assert shown["compression"]["missing"] == 0
    assert shown["used"]
    said = cli("bank", "stats").stdout
    assert "SkillRL: 10 to 20" in said
    assert "growth" in said


@pytest.mark.parametrize(("solved", "marked"), [(6, False), (5, True)])
def test_a_category_without_a_failure_is_not_called_the_weakest(solved, marked):
    console = Console(file=io.StringIO(), width=80)
    played = {"cool": (solved, 6), "heat": (6, 6)}
    one = EvolutionRound(2, 2, 2, "none_weak", played, "cool", notes=("no category is below 0.8",))
    show_evolution(console, EvolveReport("bank.sqlite", (one,), "2 skills", is_scripted=False))
    said = console.file.getvalue()
    assert ("(weakest)" in said) == marked
    assert said.count("no category") == 1


def test_runs_are_distilled_and_what_is_reported_is_not(cli, home):
    cli("eval", home, "--split", "train", "--set", "run.name=base")
    cli("eval", home, "--split", "test", "--set", "run.name=tested")
    told = cli("bank", "distill", "tested", code=2).stderr
    assert "no episode that a teacher may read; it has 12 of test" in told
    assert "continue with" not in told
    first = cli("bank", "distill", "base").stdout
    assert "version 0 -> 1" in first
    assert "Scripted models took part" in first
    again = cli("bank", "distill", "base", "--teacher", "scripted:household_teacher").stdout
    assert "nothing new was learned" in again
    assert "episodes that" not in cli("bank", "stats", "base").stdout.lower()


def test_a_seed_bank_is_searched_without_a_file(cli):
    goal = "heat some apple and put it in fridge"
    words = ("bank", "search", goal, "--env", "alfworld", "--bank", "seed:alfworld")
    found = json.loads(cli(*words, "--json").stdout)
    assert found["category"] == "heat"
    kinds = [one["kind"] for one in found["skills"]]
    assert kinds.count("general") == 12
    assert 1 <= kinds.count("task_specific") <= 6
    fewer = json.loads(cli(*words, "--set", "bank.delta=0.9", "--json").stdout)
    assert [one for one in fewer["skills"] if one["kind"] == "task_specific"] == []
    shown = cli(*words).stdout
    assert "for heat tasks" in shown
    assert "similarity above 0.05" in shown


def test_a_task_is_searched_by_its_id_and_test_tasks_stay_sealed(cli, refused, home):
    words = ("bank", "search", "--bank", "seed:alfworld", "--config", home)
    task = refused(*words, "house-train-999").split("'")[3]
    assert json.loads(cli(*words, task, "--json").stdout)["category"]
    assert "sealed" in refused(*words, task.replace("train", "test"))


@pytest.mark.parametrize("env", [[], ["--env", "alfworld"]])
def test_a_goal_in_free_words_is_searched_in_its_category(cli, env):
    words = ("bank", "search", "heat the apple", "--bank", "seed:alfworld", *env)
    found = json.loads(cli(*words, "--json").stdout)
    assert (found["category"], found["category_by"]) == ("heat", "similarity")
    assert "category heat (by similarity)" in cli(*words).stdout
    lost = ("bank", "search", "xyzzy", "--bank", "seed:alfworld", *env)
    assert "unknown, so all are searched" in cli(*lost).stdout


def test_a_skill_is_shown_with_its_history(cli, doors_bank):
    with BankStore.open(doors_bank) as store:
        before = store.load().get("t001")
        store.commit([Refine("t001", principle="Take door 4 at once.")], reason="shorter")
        store.commit([Retire("t001", "it says too much")], reason="no use")
    shown = cli("bank", "show", "t001").stdout
    assert "Take door 4 at once." in shown
    assert before.principle in shown
    assert "it says too much" in shown
    history = json.loads(cli("bank", "show", "t001", "--json").stdout)
    assert [one["version"] for one in history["wordings"]] == [1, 2, 3]
    assert "Did you mean 't001'?" in cli("bank", "show", "t01", code=2).stderr


def test_versions_are_compared_logged_and_rolled_back(cli, doors_bank):
    difference = json.loads(cli("bank", "diff", 0, "--json").stdout)
    assert [one["id"] for one in difference["added"]] == ["t001", "t002", "t003"]
    cli("bank", "rollback", 0, "--reason", "begin anew")
    assert "- [t001]" not in cli("bank", "diff", 0).stdout
    assert "- t001" in cli("bank", "diff", 1).stdout.replace("[", "").replace("]", "")
    log = json.loads(cli("bank", "log", "--json").stdout)
    assert [one["event"] for one in log] == ["changed", "rolled_back"]
    assert "begin anew" in cli("bank", "log").stdout
    assert "The nearest that it has" in cli("bank", "diff", 7, code=2).stderr


def test_the_calibration_shows_precision_and_recall(cli):
    found = json.loads(cli("bank", "calibrate", "--tasks", 12, "--json").stdout)
    assert found["default"]["delta"] == 0.05
    assert 0.5 < found["separation"] <= 1
    shown = cli("bank", "calibrate", "--tasks", 12).stdout
    assert "the embedder's own" in shown
    assert "precision" in shown


def test_a_teacher_without_a_key_leaves_nothing_that_would_be_saved(cli, home):
    cli("train", home, "--set", "evaluation.test=false", "--set", "run.name=base")
    teacher = ("--teacher", "openai_chat:gpt-5")
    said = cli("bank", "distill", "base", *teacher, code=2).stderr
    assert "OPENAI_API_KEY" in said
    assert "saved" not in said

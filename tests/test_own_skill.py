"""The skill for agents that drive Skillwright: our own commands check it; it names no others."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.cli.faults import ASKED_WRONGLY, DONE, NO
from skillwright.core.errors import BudgetSpent
from test_docs import resolve

FOLDER = Path(__file__).parents[1] / "skills" / "skillwright"
TEXT = (FOLDER / "SKILL.md").read_text(encoding="utf-8")
CASES = json.loads((FOLDER / "evals" / "evals.json").read_text(encoding="utf-8"))["evals"]
COMMANDS = re.findall(r"`(skillwright [^`]+)`", TEXT)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def wanted(case):
    """Return what an answer must include."""
    found = case["must_include"]
    return [found] if isinstance(found, str) else found


def test_verify_finds_nothing_to_say_about_it():
    done = run("verify", FOLDER, "--json")
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    assert {one["outcome"] for one in found["checks"]} <= {"pass", "skipped"}


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_and_option_in_it_exists(line):
    command, words = resolve(shlex.split(line)[1:])
    assert not hasattr(command, "commands")
    known = {name for one in command.params for name in one.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_it_explains_what_an_agent_needs():
    named = {" ".join(line.split()[1:3]) for line in COMMANDS}
    for command in ("init", "doctor", "estimate", "train", "runs", "check", "skill export"):
        assert any(one.startswith(command) for one in named), command


def test_its_table_has_each_exit_code_of_the_program():
    rows = re.findall(r"^\| ([\d, ]+) \|", TEXT, re.MULTILINE)
    codes = {int(code) for row in rows for code in row.split(",")}
    assert codes == {DONE, NO, ASKED_WRONGLY, BudgetSpent.exit_code, 130, 143}


def test_its_evals_can_all_be_checked_by_rule_and_train_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("init", FOLDER, "--offline", "--yes")
    assert done.exit_code == 0
    said = " ".join(done.output.split())
    assert f"{len(CASES)} cases" in said
    assert len(CASES) >= 12
    asserted = sum(len(wanted(case)) for case in CASES)
    assert f"{asserted} assertions: {asserted} checked by rule" in said
    assert run("doctor", "skillwright.yaml").exit_code == 0
    assert run("estimate", "skillwright.yaml").exit_code == 0


def test_what_its_evals_ask_for_follows_from_its_text():
    """An agent that read the skill can answer: each wanted command has the form of one in it."""
    forms = {tuple(line.split()[:2]) for line in COMMANDS}
    for case in CASES:
        for text in wanted(case):
            if text.startswith("skillwright"):
                assert tuple(text.split()[:2]) in forms, case["id"]
                resolve(shlex.split(text)[1:])

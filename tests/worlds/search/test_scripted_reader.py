"""The scripted reader: what it does badly, what a skill teaches it, and that training helps."""

import json

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.core import Purpose
from skillwright.worlds.alfworld.scripted.edits import are_alike
from skillwright.worlds.search import QaEnv, generated_questions
from skillwright.worlds.search.generate import SPLITS
from skillwright.worlds.search.scripted.reader import (
    BAD_RULES,
    LESSONS,
    SUPERSTITIONS,
    ReaderRule,
    ScriptedReader,
    read_rules,
)

TAUGHT = {rule: f"- {lesson.wordings[0]}\n" for rule, lesson in LESSONS.items()}
WORDINGS = [text for lesson in LESSONS.values() for text in lesson.wordings]


async def asked(task, skill=""):
    """Ask one question; return the step."""
    env = QaEnv(None, dict(task.extras))
    messages, _ = env.init([])
    messages[0]["content"] += f"\n\n## Skill\n{skill}"
    return env.step((await ScriptedReader().complete(messages, purpose=Purpose.ROLLOUT)).text)


async def won(split, skill):
    steps = [await asked(task, skill) for task in generated_questions(split, 60)]
    return sum(step["reward"] for step in steps) / len(steps)


@pytest.mark.parametrize("split", SPLITS)
async def test_with_every_rule_it_answers_everything_and_without_few(split):
    assert await won(split, "".join(TAUGHT.values())) == 1.0
    assert await won(split, "") < 0.3


@pytest.mark.parametrize("rule", LESSONS)
async def test_every_rule_is_needed_to_practise_and_to_be_judged(rule):
    skill = "".join(line for other, line in TAUGHT.items() if other != rule)
    for split in SPLITS:
        assert await won(split, skill) < 0.95, split


async def test_the_harmful_rule_harms():
    assert await won("val", "".join(TAUGHT.values()) + SUPERSTITIONS[0]) < 0.5


@pytest.mark.parametrize("rule", LESSONS)
def test_every_wording_is_recognized_as_its_rule_and_no_other(rule):
    for text in LESSONS[rule].wordings:
        assert read_rules(f"# Skill\n- {text}\n") == {rule}


def test_the_superstitions_are_recognized_and_can_be_forbidden():
    for text in SUPERSTITIONS:
        assert read_rules(text) == BAD_RULES
    assert read_rules("Never answer in full sentences.") == frozenset()
    assert read_rules("Keep it short.\nDo not explain it.") == {ReaderRule.SHORTEST}


def test_no_two_lessons_are_taken_for_one_when_edits_are_merged():
    texts = [*WORDINGS, *SUPERSTITIONS]
    assert not [(a, b) for at, a in enumerate(texts) for b in texts[:at] if are_alike(a, b)]


async def test_what_it_cannot_read_it_does_not_know():
    for said in ("Hello.", "Question: why?", ""):
        messages = [{"role": "user", "content": said}]
        answer = await ScriptedReader().complete(messages, purpose=Purpose.ROLLOUT)
        assert answer.text == "<answer>I do not know</answer>"


def test_training_offline_finds_the_rules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qa.yaml").write_text(
        json.dumps(
            {
                "env": {"name": "qa"},
                "models": {
                    "target": {"backend": "scripted", "model": "reader"},
                    "optimizer": {"backend": "scripted", "model": "reader_analyst"},
                },
                "train": {"epochs": 2, "batch_size": 20},
            }
        ),
        encoding="utf-8",
    )
    result = CliRunner().invoke(app, ["train", "qa.yaml", "--json"])
    assert result.exit_code == 0, result.output
    tables = json.loads(result.stdout)["test"]["tables"]
    assert tables["initial"]["overall"]["success_rate"] < 0.3
    assert tables["best"]["overall"]["success_rate"] > 0.9

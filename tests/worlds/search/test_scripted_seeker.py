"""The scripted seeker: what it does badly, what a skill teaches it, and that training helps."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.core import Purpose, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld.scripted.edits import are_alike
from skillwright.worlds.search import SearchQaEnv, archive_questions
from skillwright.worlds.search.archives import ARCHIVES, makers_word
from skillwright.worlds.search.scripted.seeker import (
    BAD_RULES,
    LESSONS,
    SUPERSTITIONS,
    ScriptedFinder,
    ScriptedSeeker,
    SeekerRule,
    read_rules,
)

RULES = {rule: f"- {LESSONS[rule].wordings[0]}\n" for rule in LESSONS if rule != "fact"}
WORDS = "".join(
    f"- In the records of {archive} the maker is called the {makers_word(archive)}.\n"
    for archive in ARCHIVES
)
EVERYTHING = "".join(RULES.values()) + WORDS


async def played(task, skill, model, turns=5):
    """Play one question; return the reward."""
    env = SearchQaEnv({"passages": "generated"}, {**task.extras, "max_turns": turns})
    messages, _ = env.init([])
    messages[0]["content"] += f"\n\n## Skill\n{skill}"
    for turn in range(turns):
        sampling = Sampling(seed=derive_seed("test", task.id, turn))
        answer = await model.complete(messages, sampling=sampling, purpose=Purpose.ROLLOUT)
        step = env.step(answer.text)
        messages += [{"role": "assistant", "content": answer.text}, *step["observations"]]
        if step["done"]:
            return step["reward"]
    raise AssertionError("it never ends")


async def solved(skill, model=None, split="val", turns=5):
    """Return the share of solved questions, by category and of all."""
    model = model or ScriptedSeeker()
    won, asked = Counter(), Counter()
    for task in archive_questions(split, 60):
        reward = await played(task, skill, model, turns)
        for name in (task.task_type, "all"):
            won[name] += reward
            asked[name] += 1
    return {name: won[name] / asked[name] for name in asked}


@pytest.mark.parametrize("split", ["train", "val", "test"])
async def test_with_everything_it_answers_everything_and_without_little(split):
    assert (await solved(EVERYTHING, split=split))["all"] == 1.0
    assert (await solved("", split=split))["all"] < 0.3


@pytest.mark.parametrize("rule", RULES)
async def test_every_rule_is_needed(rule):
    skill = "".join(line for other, line in RULES.items() if other != rule) + WORDS
    assert (await solved(skill))["all"] < 0.9


async def test_the_words_of_the_archives_are_needed_where_a_maker_is_asked_for():
    found = await solved("".join(RULES.values()))
    assert found["direct_retrieval"] == found["comparison"] == 1.0
    assert found["entity_attribute_lookup"] < 0.7
    assert found["multi_hop_reasoning"] < 0.7


async def test_an_expert_needs_the_words_alone():
    assert (await solved(WORDS, ScriptedFinder()))["all"] == 1.0
    assert (await solved("", ScriptedFinder()))["all"] < 0.9


async def test_with_noise_it_is_worse_and_repeats_itself():
    first = await solved(EVERYTHING, ScriptedSeeker(noise=0.3))
    assert first == await solved(EVERYTHING, ScriptedSeeker(noise=0.3))
    assert 0.4 < first["all"] < 0.95


@pytest.mark.parametrize("text", SUPERSTITIONS)
async def test_superstitions_do_harm(text):
    assert (await solved(EVERYTHING + text, turns=5))["all"] < 0.8


@pytest.mark.parametrize("rule", RULES)
def test_every_wording_is_recognized_as_its_rule_and_no_other(rule):
    for text in LESSONS[rule].wordings:
        assert read_rules(f"# Skill\n- {text}\n") == {rule}


def test_words_of_archives_are_no_rules_and_superstitions_are_known():
    assert read_rules(WORDS) == frozenset()
    assert read_rules(SUPERSTITIONS[0]) | read_rules(SUPERSTITIONS[1]) == BAD_RULES
    assert read_rules(f"{RULES[SeekerRule.NAME_ALONE]}\n{SUPERSTITIONS[2]}") == frozenset()
    assert read_rules("Never answer from memory.") == frozenset()


def test_no_two_lessons_are_taken_for_one_when_edits_are_merged():
    texts = [text for rule in RULES for text in LESSONS[rule].wordings] + list(SUPERSTITIONS)
    assert not [(a, b) for at, a in enumerate(texts) for b in texts[:at] if are_alike(a, b)]


async def test_what_it_cannot_read_it_does_not_know():
    for said in ("Hello.", "Question: why?", ""):
        messages = [{"role": "user", "content": said}]
        answer = await ScriptedSeeker().complete(messages, purpose=Purpose.ROLLOUT)
        assert answer.text == "<answer>unknown</answer>"


CONFIG = {
    "env": {
        "name": "qa",
        "config": {"passages": "generated"},
        "max_turns": 5,
        "data": {"kind": "qa", "train": 96, "val": 60, "test": 60},
    },
    "models": {
        "target": {"backend": "scripted", "model": "seeker", "noise": 0.1},
        "optimizer": {"backend": "scripted", "model": "seeker_analyst"},
        "teacher": {"backend": "scripted", "model": "search_teacher"},
    },
    "train": {"epochs": 1, "batch_size": 24},
    "optimizer": {"learning_rate": 3},
    "evolve": {"nth": 2, "trigger_accuracy": 1.0},
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")

    def call(*words):
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


def test_training_a_noisy_seeker_offline_finds_rules_and_words(run, tmp_path):
    tables = run("train", "search.yaml")["test"]["tables"]
    assert tables["initial"]["overall"]["success_rate"] < 0.35
    assert tables["best"]["overall"]["success_rate"] > 0.6
    (skill,) = (tmp_path / "runs").glob("*/best_skill.md")
    assert "the maker is called the" in skill.read_text("utf-8")


@pytest.mark.heavy
def test_a_bank_is_distilled_and_evolves_until_it_knows_words_of_archives(run):
    blank = run("eval", "search.yaml")["table"]["overall"]["success_rate"]
    run("bank", "distill", "search.yaml")
    bank = ("--set", "skill.bank=bank.sqlite")
    distilled = run("eval", "search.yaml", *bank)["table"]["overall"]["success_rate"]
    run("bank", "evolve", "search.yaml", "--rounds", "4")
    evolved = run("eval", "search.yaml", *bank)["table"]["overall"]["success_rate"]
    assert blank + 0.2 < distilled < evolved

"""The scripted retail agent: what it forgets, what a skill teaches it, and that training helps."""

import json

import pytest

from skillwright.core import Purpose, Sampling
from skillwright.worlds.tau_bench import TauBenchEnv
from skillwright.worlds.tau_bench.scripted import (
    RetailRule,
    ScriptedRetail,
    ScriptedRetailAnalyst,
    read_rules,
)
from skillwright.worlds.tau_bench.scripted.agent import BAD_RULES
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS, SUPERSTITION
from tau_built_in.generate import HERE, PLAN

TAUGHT = {rule: f"- {lesson.wordings[0]}\n" for rule, lesson in LESSONS.items()}


async def play(split, index, skill=""):
    """Play a built-in task; return its reward and what the agent wrote."""
    env = TauBenchEnv(
        {"user_strategy": "rule_based", "data_dir": str(HERE)},
        {"task_split": split, "task_index": index},
    )
    messages, _ = env.init([])
    messages[0]["content"] += f"\n\n## Skill\n{skill}"
    while True:
        answer = await ScriptedRetail().complete(messages, purpose=Purpose.ROLLOUT)
        step = env.step(answer.text)
        messages.append({"role": "assistant", "content": answer.text})
        if step["done"]:
            said = [one["content"] for one in messages if one["role"] == "assistant"]
            return env.get_metrics()["reward"], said
        messages += step["observations"]


async def won(split, skill):
    return [(await play(split, index, skill))[0] for index in range(len(PLAN[split]))]


@pytest.mark.parametrize("split", PLAN)
async def test_with_every_rule_it_serves_everybody_and_without_few(split):
    assert all(await won(split, "".join(TAUGHT.values())))
    assert sum(await won(split, "")) <= len(PLAN[split]) / 3


@pytest.mark.parametrize("rule", LESSONS)
async def test_every_rule_is_needed_to_practise_and_to_be_judged(rule):
    skill = "".join(line for other, line in TAUGHT.items() if other != rule)
    for split in PLAN:
        assert not all(await won(split, skill)), split


async def test_the_harmful_rule_harms():
    skill = "".join(TAUGHT.values())
    assert sum(await won("val", skill + f"- {SUPERSTITION[0]}\n")) < len(PLAN["val"])


@pytest.mark.parametrize("rule", LESSONS)
def test_every_wording_is_recognized_as_its_rule_and_no_other(rule):
    for text in LESSONS[rule].wordings:
        assert read_rules(f"# Skill\n- {text}\n") == {rule}


def test_the_superstition_is_recognized_and_can_be_forbidden():
    for text in SUPERSTITION:
        assert read_rules(text) == BAD_RULES
    later = f"{SUPERSTITION[0]}\nDo not transfer customers at once when something is refused."
    assert RetailRule.TRANSFER_AT_ONCE not in read_rules(later)
    assert read_rules("Be kind. Serve tea.") == frozenset()


async def test_a_turn_is_one_call_or_one_message():
    _, said = await play("test", 0, "".join(TAUGHT.values()))
    assert said[0].endswith("?")
    for text in said:
        if "<tool_call>" in text:
            inner = text.removeprefix("<tool_call>").removesuffix("</tool_call>")
            assert json.loads(inner).keys() == {"name", "arguments"}


@pytest.mark.parametrize(
    "replies",
    [
        [],
        ["Hello."],
        ["I want to cancel my order #W1.", "I am nobody.", "{}"],
        ["I want to cancel my order #W1.", "a@b.c", "Error: user not found", "[]", "{}", "x"],
        ["I want to cancel my order #W1.", "a@b.c", "id", '{"status": 1}', "yes", "no", "maybe"],
    ],
)
async def test_a_conversation_that_it_cannot_follow_is_no_fault(replies):
    messages = [{"role": "system", "content": "## Skill\n" + "".join(TAUGHT.values())}]
    for reply in replies:
        messages += [{"role": "user", "content": reply}, {"role": "assistant", "content": "?"}]
        answer = await ScriptedRetail().complete(messages[:-1], purpose=Purpose.ROLLOUT)
        assert answer.text
    assert (await ScriptedRetail().complete([], purpose=Purpose.ROLLOUT)).text


async def test_the_analyst_answers_any_prompt():
    analyst = ScriptedRetailAnalyst()
    for system in ("# Analyst: failures", "# Merge: failures", "Hello", ""):
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "?"}]
        answer = await analyst.complete(
            messages, sampling=Sampling(seed=1), purpose=Purpose.REFLECT
        )
        assert answer.text
        assert answer.model == "scripted:retail_analyst"

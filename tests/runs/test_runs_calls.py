"""Optimizer calls in the store."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from skillwright.config.run import BudgetSection
from skillwright.core import Completion, Purpose, RunError, ToolCall, Usage
from skillwright.core.jsonio import digest
from skillwright.jobs.text.spending import step_cost
from skillwright.runs import CallRecord, Redactor, RunStore

MESSAGES = [
    {"role": "system", "content": "# Analyst: failures"},
    {"role": "user", "content": "## Current skill\n(empty)"},
]
ANSWER = Completion(
    text='{"patch": {"edits": []}} \ud800',
    finish_reason="tool_calls",
    model="gpt-x-2026",
    usage=Usage(1, 100, 20, 40, 2, None),
    tool_calls=(ToolCall("c1", "lookup", '{"broken'),),
    reasoning="Because.",
)


def call(key="k", completion=ANSWER, **changes):
    return CallRecord(key, Purpose.REFLECT, "openai:gpt-x", MESSAGES, completion, **changes)


def test_an_answer_is_found_by_its_key_and_equals_what_was_recorded(store):
    store.record_call(call(step=1))
    assert store.find_call("k") == ANSWER
    assert store.find_call("other") is None


def test_the_prompt_of_a_call_is_found_by_the_digest_of_its_messages(store):
    store.record_call(call())
    assert store.prompt(digest(MESSAGES)) == tuple(MESSAGES)
    with pytest.raises(RunError, match="holds no prompt"):
        store.prompt(digest([]))


def test_an_error_is_recorded_and_asked_again(store):
    store.record_call(call(completion=None, error="503 for key=sk-abcdefgh12345678"))
    store.record_call(call(completion=None, error="\ud800"))
    store.record_call(call(completion=None, error=""))
    assert store.find_call("k") is None
    store.record_call(call())
    assert store.find_call("k") == ANSWER
    assert store.counts()["calls"] == 4
    assert store.usage_by_purpose()["reflect"].failed_calls == 5


def test_the_first_answer_stays_and_what_the_second_cost_is_counted(store):
    store.record_call(call())
    store.record_call(call(completion=Completion("other", usage=Usage(1, 7, cost_usd=None))))
    assert store.find_call("k") == ANSWER
    assert store.usage_by_purpose() == {"reflect": Usage(2, 107, 20, 40, 2, None)}


def test_equal_prompts_are_stored_once(store, database):
    for number in range(3):
        store.record_call(call(f"k{number}"))
    assert database.rows("SELECT count(*) FROM prompts")[0][0] == 1
    assert database.rows("SELECT count(*) FROM texts")[0][0] == 4


def test_a_call_has_an_answer_or_an_error_never_both_or_neither():
    for completion, error in ((None, None), (ANSWER, "late")):
        with pytest.raises(ValueError, match="exactly one of completion and error"):
            call(completion=completion, error=error)


def test_known_secrets_are_taken_out_of_prompts_and_answers(store_path):
    secret = 'pass"word'
    messages = [{"role": "user", "content": f"use {secret}", "name": secret}]
    answer = Completion(f"I used {secret}", tool_calls=(ToolCall("c", "f", f"[{secret}]"),))
    with RunStore.open(store_path, redactor=Redactor([secret])) as store:
        store.record_call(CallRecord("k", Purpose.MERGE, "m", messages, answer))
        found = store.find_call("k")
        prompt = store.prompt(digest(messages))
    assert found.text == "I used <redacted>"
    assert found.tool_calls[0].arguments == "[<redacted>]"
    assert prompt == ({"role": "user", "content": "use <redacted>", "name": "<redacted>"},)


def test_calls_are_summarized_with_their_latency_and_prompt(store):
    again = [*MESSAGES, {"role": "assistant", "content": "?"}, {"role": "user", "content": "JSON!"}]
    store.record_call(call(step=2, wall_s=1.5))
    store.record_call(CallRecord("k2", Purpose.REFLECT, "m", again, ANSWER, wall_s=0.5))
    store.record_call(CallRecord("k3", Purpose.MERGE, "m", again[:1], error="timeout"))
    first, second, third = store.calls()
    assert (first.purpose, first.step, first.wall_s) == (Purpose.REFLECT, 2, 1.5)
    assert first.prompt_digest == digest(MESSAGES)
    assert (second.prompt_digest, second.wall_s) == (digest(again), 0.5)
    assert third.prompt_digest == digest(again[:1])


@pytest.mark.parametrize(
    ("usd", "unknown", "cost"),
    [
        (0.06, False, 20 + 0.06 / 0.01),  # 1 call of .06 USD a step, .01 USD a rollout
        (0.06, True, 20 + 600 / 100),  # a price is unknown: 600 tokens a step, 100 a rollout
        (0.0, False, 20 + 600 / 100),  # free models still take time
    ],
)
def test_a_step_costs_its_batch_and_what_its_calls_used(store, make_episode, usd, unknown, cost):
    run = SimpleNamespace(
        store=store,
        config=SimpleNamespace(
            train=SimpleNamespace(batch_size=20, accumulation=1),
            budget=BudgetSection(usd=1, rollouts=900),
        ),
        bench=SimpleNamespace(sizes=SimpleNamespace(train=40)),
    )
    assert step_cost(run, 20, 1) == 40  # nothing is measured yet
    run.config.budget = BudgetSection(rollouts=900)
    assert step_cost(run, 20, 1) == 25  # calls are not what the budget counts
    assert step_cost(run, 0, 1) == 5
    for step in (1, 2):
        price = None if unknown else usd
        answer = replace(ANSWER, usage=Usage(1, 500, 100, cost_usd=price))
        store.record_call(call(f"k{step}", answer, step=step))
        error = call(f"e{step}", None, error="503", usage=Usage(0, 9_000), step=step)
        store.record_call(error)
        for number in range(3):
            spent = {Purpose.ROLLOUT: Usage(2, 80, 20, cost_usd=usd / 6)}
            store.record_episode(make_episode(f"t{number}", step=step), usage=spent)
    store.record_call(call("k3", step=3))
    assert step_cost(run, 20, 2) == pytest.approx(cost)

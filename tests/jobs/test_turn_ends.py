"""Answers that are cut, empty, only thought or native calls: counted, and mostly such no score."""

import json

import pytest

from doors import Coach, Walker, doors_config, doors_settings, evaluated, look
from mock_openai import MockOpenAI, completion
from skillwright.config.run import validated
from skillwright.core import ConfigError, Lapse
from skillwright.dashboard.report import html_report, markdown_report
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import NullCallback, TurnEnds
from skillwright.jobs.text import (
    EvalPlan,
    EvalReport,
    open_run,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.models import make_model
from tau_models import shop, tau_settings

CALL = {"id": "c", "type": "function", "function": {"name": "open", "arguments": "{}"}}
KINDS = {
    "an unclosed thought": (
        {"text": "<think>Which door", "finish_reason": "length"},
        Lapse.CUT,
        "max_tokens",
    ),
    "a cut answer": ({"text": "1", "finish_reason": "length"}, Lapse.CUT, "max_tokens"),
    "a thought apart": (
        {"text": "", "reasoning_content": "Door 1."},
        Lapse.REASONING,
        "reasoning parser",
    ),
    "native calls": (
        {"text": None, "tool_calls": [CALL], "finish_reason": "tool_calls"},
        Lapse.NATIVE_CALLS,
        "parser for tool calls",
    ),
    "nothing": ({"text": ""}, Lapse.EMPTY, "chat template"),
}
PLAN = EvalPlan("test", 1)


def answering(kind, every):
    """Answer every so-many-th question in a strange way, and the others with a number."""
    asked = 0

    async def handler(body):
        nonlocal asked
        del body
        asked += 1
        return completion(**KINDS[kind][0]) if asked % every == 0 else "1"

    return handler


def behind(server, settings):
    endpoint = {"backend": "openai_chat", "base_url": server.base_url, "api_key": server.api_key}
    target = {**endpoint, "model": "m"}
    return validated({**settings, "models": {**settings["models"], "target": target}}, "here")


async def evaluate_in(config, plan=PLAN):
    with start_run(config, "", plan) as run:
        return run.folder.path, await run_evaluation(run, plan, NullCallback())


@pytest.mark.parametrize("kind", KINDS)
async def test_some_such_answers_are_counted_and_the_report_says_what_to_change(tmp_path, kind):
    async with MockOpenAI(answering(kind, every=3)) as server:
        path, report = await evaluate_in(behind(server, doors_settings(tmp_path)))
    _, lapse, move = KINDS[kind]
    ends = report.turns
    assert ends.turns == len(server.bodies)
    assert ends.lapses == {one: len(server.bodies) // 3 if one is lapse else 0 for one in Lapse}
    shares, advice = ends.lines()
    assert shares.startswith(f"answers in {ends.turns} turns: ")
    assert f"{ends.share:.1%}" in shares
    assert move in advice
    assert EvalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    summary = read_run(path)
    assert summary.turns == ends
    assert summary.to_dict()["turns"] == ends.to_dict()


@pytest.mark.parametrize("kind", KINDS)
async def test_mostly_such_answers_are_no_score(tmp_path, kind):
    async with MockOpenAI(answering(kind, every=1)) as server:
        with pytest.raises(ConfigError, match=r"^100% of the answers say nothing") as caught:
            await evaluate_in(behind(server, doors_settings(tmp_path)))
        asked = len(server.bodies)
        assert KINDS[kind][2] in str(caught.value)
        assert caught.value.exit_code == 2
        with look(tmp_path / "runs" / "doors") as store:
            assert not store.events("evaluated")
        with open_run(tmp_path / "runs" / "doors") as run, pytest.raises(ConfigError):
            await run_evaluation(run, run.plan, NullCallback())
    assert len(server.bodies) == asked  # nothing is paid for twice to find the same again


SEEN = {
    "a mark that was cut": ("1<|im_end|>", Lapse.MARKS_CUT, "stop tokens are not those of this"),
    "a mark that was left": ("1 <|im_end|> 2", Lapse.MARKS_LEFT, "may be part of the answer"),
}


@pytest.mark.parametrize("kind", SEEN)
async def test_template_marks_are_counted_with_their_cause_and_the_answers_have_a_score(
    tmp_path, kind
):
    text, lapse, move = SEEN[kind]

    async def handler(body):
        del body
        return text

    async with MockOpenAI(handler) as server:
        path, report = await evaluate_in(behind(server, doors_settings(tmp_path)))
    assert report.turns.lapses[lapse] == report.turns.turns > 0
    assert report.turns.share == 0
    shares, advice = report.turns.lines()
    assert "100.0% with template marks" in shares
    assert move in advice
    assert "chat template" in advice
    for made in (html_report, markdown_report):
        assert move in made(path)


async def test_half_of_the_answers_is_still_a_score(tmp_path):
    async with MockOpenAI(answering("nothing", every=2)) as server:
        _, report = await evaluate_in(behind(server, doors_settings(tmp_path)))
    assert report.turns.share == 0.5


@pytest.mark.parametrize("kind", ["an unclosed thought", "a thought apart", "native calls"])
async def test_in_tau_bench_too_they_are_no_score(tmp_path, kind):
    settings = tau_settings(tmp_path, shop(tmp_path / "shop"))
    async with MockOpenAI(answering(kind, every=1)) as server:
        with pytest.raises(ConfigError, match=KINDS[kind][2]):
            await evaluate_in(behind(server, settings))


async def test_an_evaluation_without_such_answers_says_so(tmp_path):
    _, report = await evaluated(doors_config(tmp_path), PLAN, Walker())
    assert list(report.turns.lines()) == [
        f"answers in {report.turns.turns} turns: 0.0% cut at max_tokens, 0.0% native tool calls, "
        "0.0% reasoning without text, 0.0% empty"
    ]


async def test_a_training_tells_of_them_and_goes_on(tmp_path):
    coach = Coach([])

    def made(llm, client):
        return coach if llm.model == "analyst" else make_model(llm, client)

    async with MockOpenAI(answering("nothing", every=4)) as server:
        config = behind(server, doors_settings(tmp_path))
        with start_run(config, "") as run:
            await run_training(run, NullCallback(), made)
            ends = TurnEnds.read(run.store.turn_ends())
    assert 0.15 < ends.share < 0.3
    assert read_run(tmp_path / "runs" / "doors").turns == ends


def test_a_turn_of_an_older_run_is_counted_as_far_as_it_is_known():
    ends = TurnEnds.read({"stop": 6, "other": 1, "length": 3})
    assert (ends.turns, ends.lapses[Lapse.CUT], ends.share) == (10, 3, 0.3)
    assert TurnEnds(0).share == 0.0
    assert list(TurnEnds(0).lines()) == []
    assert sum([ends, ends], TurnEnds(0)) == TurnEnds(20, {**ends.lapses, Lapse.CUT: 6})

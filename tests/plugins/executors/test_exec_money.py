"""What failed runs of a program cost is said on the error, or counted with the answer."""

import pytest
from exec_fixtures import MESSAGES, fakes, turn

from skillwright.core import ModelTimeout, Purpose, ReplyInvalid, Usage
from skillwright.plugins.executors.claude import read_claude_events
from skillwright.plugins.executors.process import Program, run_program

__all__ = ["fakes"]

ONE_RUN = Usage(0, 1050, 32, 700, 0, 0.0125, 200, 20)


async def failure(llm, kind):
    with pytest.raises(kind) as caught:
        await llm.complete(MESSAGES, purpose=Purpose.ROLLOUT)
    return caught.value


async def test_a_run_that_reached_its_bound_costs_what_it_says(fakes):
    llm = fakes.make("claude_code_exec", "max_turns")
    error = await failure(llm, ReplyInvalid)
    assert (error.usage, error.failed_calls) == (ONE_RUN, 1)


async def test_every_attempt_that_failed_is_summed(fakes):
    llm = fakes.make("claude_code_exec", "api_error", max_attempts=3)
    error = await failure(llm, Exception)
    assert error.failed_calls == 3
    assert error.usage == ONE_RUN + ONE_RUN + ONE_RUN


async def test_answers_that_were_empty_to_the_end_are_charged(fakes):
    llm = fakes.make(
        "codex_exec", "empty", prices={"input_usd_per_mtok": 1000, "output_usd_per_mtok": 1000}
    )
    error = await failure(llm, ReplyInvalid)
    assert error.failed_calls == 2
    assert (error.usage.calls, error.usage.input_tokens) == (0, 1800)
    assert error.usage.cost_usd == pytest.approx(2 * 0.94)


async def test_a_run_that_tells_nothing_is_no_unknown_cost(fakes):
    llm = fakes.make("codex_exec", "crash", max_attempts=1)
    error = await failure(llm, Exception)
    assert error.usage == Usage()


async def test_an_answer_after_an_empty_one_carries_both(fakes):
    act = (await fakes.make("codex_exec", "empty_once").act_batch([turn()]))[0]
    assert (act.usage.calls, act.usage.input_tokens) == (2, 1800)


async def test_what_a_killed_program_had_told_by_then_is_said(tmp_path):
    code = "echo 5 tokens; exec sleep 600"
    program = Program(
        ("/bin/sh", "-c", code),
        "",
        tmp_path,
        {},
        timeout_s=1.0,
        spent=lambda printed: Usage(output_tokens=int(printed.split()[0])),
    )
    with pytest.raises(ModelTimeout) as caught:
        await run_program(program)
    assert caught.value.usage == Usage(output_tokens=5)


@pytest.mark.parametrize("cost", ["NaN", "-5", "Infinity", "true", '"1"'])
def test_a_cost_that_is_no_amount_is_unknown(cost):
    tokens = '{"m": {"inputTokens": 1, "outputTokens": 1}}'
    line = f'{{"type": "result", "total_cost_usd": {cost}, "modelUsage": {tokens}}}'
    assert read_claude_events(line).usage.cost_usd is None

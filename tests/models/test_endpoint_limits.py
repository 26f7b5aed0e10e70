import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mock_openai import error
from skillwright.core import ModelRefused, ModelTimeout, Purpose
from skillwright.core.concurrency import together
from skillwright.models import EndpointFault, OpenAIChatConfig
from skillwright.models.http.traffic import (
    FAULT_FLOOR,
    FAULT_WINDOW,
    WINDOW,
    EndpointLimits,
    Latencies,
    Limiter,
)


def config(base_url="http://a/v1", **settings):
    return OpenAIChatConfig(model="m", base_url=base_url, **settings)


def traffic(clock, **settings):
    return EndpointLimits().traffic(config(**settings), "", sleep=clock.sleep, clock=clock)


def meet(found, error, status=0):
    """Let an attempt end with an error."""
    with (
        contextlib.suppress(type(error)),
        found.trial(Purpose.ROLLOUT, found.circuit("m")) as trial,
    ):
        trial.status = status
        raise error


def fill(limiter):
    while limiter.enter_at_once():
        pass
    return limiter.in_flight


def test_models_on_one_endpoint_and_key_share_a_limiter_with_the_smallest_bound():
    limits = EndpointLimits()
    shared = limits.traffic(config(max_concurrent=8), "k")
    assert limits.traffic(config(max_concurrent=3), "k") is shared
    assert limits.traffic(config(max_concurrent=5), "k").limiter.limit == 3
    assert limits.traffic(config(max_concurrent=5), "other") is not shared
    assert limits.traffic(config("http://b/v1", max_concurrent=5), "k").limiter.limit == 5


async def test_those_who_wait_are_admitted_in_their_order():
    limiter = Limiter(1)
    order = []

    async def visit(name):
        async with limiter.slot():
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name in range(6):
            group.create_task(visit(name))
    assert order == list(range(6))


async def test_an_error_inside_gives_the_place_back():
    limiter = Limiter(1)
    with pytest.raises(KeyError):
        async with limiter.slot():
            raise KeyError
    assert limiter.in_flight == 0


# --- the bound finds its height -----------------------------------------------------------------


def test_it_begins_at_16_and_doubles_while_all_goes_well():
    limiter = Limiter(100)
    assert fill(limiter) == 16
    for _ in range(16):
        fill(limiter)
        limiter.rise()
    assert limiter.limit == 32
    for _ in range(200):
        fill(limiter)
        limiter.rise()
    assert limiter.limit == 100


def test_after_a_cut_it_rises_by_one_for_as_many_answers_as_it_is_high():
    limiter = Limiter(100)
    limiter.cut(0.5, since=0)
    assert limiter.limit == 8
    for _ in range(9):
        fill(limiter)
        limiter.rise()
    assert limiter.limit == 9
    for _ in range(20):
        fill(limiter)
        limiter.rise()
    assert limiter.limit == 11


def test_one_wave_of_trouble_is_one_cut():
    limiter = Limiter(100)
    for _ in range(16):
        limiter.cut(0.5, since=0)
    assert limiter.limit == 8
    limiter.cut(0.5, since=limiter.round)
    assert limiter.limit == 4


@pytest.mark.parametrize("floor", [1, 3])
def test_it_is_never_cut_below_its_floor(floor):
    limiter = Limiter(100)
    for _ in range(20):
        limiter.cut(0.5, since=limiter.round, floor=floor)
    assert limiter.limit == floor


def test_a_bound_that_nobody_reaches_does_not_rise():
    limiter = Limiter(100)
    for _ in range(50):
        limiter.enter_at_once()
        limiter.rise()
        limiter.leave()
    assert limiter.limit == 16


async def test_a_bound_that_rises_lets_those_in_who_wait():
    limiter, entered = Limiter(2, start=1), asyncio.Event()
    limiter.enter_at_once()

    async def visit():
        async with limiter.slot():
            entered.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(visit())
        await asyncio.sleep(0)
        assert not entered.is_set()
        limiter.rise()
    assert entered.is_set()


@given(
    limit=st.integers(1, 4),
    visits=st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.integers(0, 6), st.booleans()),
        min_size=1,
        max_size=12,
    ),
)
def test_no_mix_of_visits_cuts_and_cancellations_breaks_the_bound_or_loses_a_place(limit, visits):
    async def scenario():
        limiter = Limiter(limit)
        most = 0

        async def visit(turns, is_cut):
            nonlocal most
            async with limiter.slot():
                most = max(most, limiter.in_flight)
                for _ in range(turns):
                    await asyncio.sleep(0)
                if is_cut:
                    limiter.cut(0.5, limiter.round)
                else:
                    limiter.rise()

        async def leave(task, turns):
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

        async with asyncio.TaskGroup() as group:
            for turns, cancelled_after, is_cut in visits:
                task = group.create_task(visit(turns, is_cut))
                if cancelled_after is not None:
                    group.create_task(leave(task, cancelled_after))
        assert most <= limit
        assert limiter.in_flight == 0
        async with asyncio.timeout(1), limiter.slot():
            assert limiter.in_flight == 1

    asyncio.run(scenario())


# --- what cuts it -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "left"),
    [
        (429, EndpointFault("busy"), 11),
        (503, EndpointFault("overloaded"), 11),
        (200, EndpointFault("rate limit, inside a success", status=429), 11),
        (500, EndpointFault("broken"), 16),
        (0, EndpointFault("reset"), 16),
        (0, ModelTimeout("late"), 16),
        (401, ModelRefused("no"), 16),
    ],
)
def test_trouble_cuts_the_bound_and_a_refusal_does_not(clock, status, error, left):
    found = traffic(clock)
    meet(found, error, status)
    assert found.limiter.limit == left


def test_faults_that_have_nothing_to_do_with_load_cut_nothing_while_most_calls_are_answered(clock):
    found = traffic(clock)
    for _ in range(100):
        meet(found, EndpointFault("reset"))
        answer(found, clock, 0.1, times=3)
    assert found.limiter.limit == 16


def test_where_most_attempts_fail_the_bound_is_cut_but_not_to_nothing(clock):
    found = traffic(clock)
    for _ in range(FAULT_WINDOW - 1):
        meet(found, EndpointFault("reset"))
    assert found.limiter.limit == 16
    meet(found, EndpointFault("reset"))
    assert found.limiter.limit == 11
    for _ in range(4 * FAULT_WINDOW):
        meet(found, EndpointFault("reset"))
    assert found.limiter.limit == FAULT_FLOOR


def test_a_cancelled_attempt_says_nothing(clock):
    found = traffic(clock)
    meet(found, asyncio.CancelledError())
    assert found.limiter.limit == 16


def answer(found, clock, seconds, purpose=Purpose.ROLLOUT, times=WINDOW):
    for _ in range(times):
        with found.trial(purpose, found.circuit("m")):
            clock.now += seconds


def test_latencies_that_collapse_cut_the_bound(clock):
    found = traffic(clock)
    answer(found, clock, 2.0)
    answer(found, clock, 7.0)
    assert found.limiter.limit == 16
    answer(found, clock, 9.0)
    assert found.limiter.limit == 11


def test_a_purpose_with_longer_answers_is_no_collapse(clock):
    found = traffic(clock)
    answer(found, clock, 2.0)
    answer(found, clock, 60.0, Purpose.REFLECT)
    assert found.limiter.limit == 16


def test_nobody_slows_down_for_a_latency_under_a_few_seconds(clock):
    found = traffic(clock)
    answer(found, clock, 0.01)
    answer(found, clock, 1.0)
    assert found.limiter.limit == 16


def test_a_model_that_became_slow_for_good_is_accepted_in_time():
    latencies = Latencies()
    cuts = [latencies.note(seconds) for seconds in [1.0] * WINDOW + [6.0] * WINDOW * 40]
    assert cuts.count(True) > 1
    assert not any(cuts[-WINDOW * 20 :])


# --- all of it together -------------------------------------------------------------------------


async def test_a_server_that_bears_eight_at_once_is_soon_asked_for_about_so_many(
    make_chat, mock_openai
):
    refused = 0

    async def handler(body):
        nonlocal refused
        del body
        too_many = mock_openai.in_flight > 8
        await asyncio.sleep(0)
        refused += too_many
        return error(429, "too many at once") if too_many else "ok"

    mock_openai.handler = handler
    chat = make_chat(max_attempts=50, max_concurrent=64)
    asked = [{"role": "user", "content": "hello"}]
    answers = await together(chat.complete(asked, purpose=Purpose.ROLLOUT) for _ in range(400))
    assert {answer.text for answer in answers} == {"ok"}
    assert refused < 100  # the limiter finds the height, and the retries do the rest
    assert chat._traffic.limiter.limit <= 16

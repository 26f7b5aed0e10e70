"""How fast an endpoint is asked, which pauses it may ask for, and who gives up waiting."""

import asyncio
import contextlib

import pytest

from mock_openai import status
from skillwright.core import ModelTimeout, Purpose
from skillwright.models import EndpointFault, OpenAIChatConfig
from skillwright.models.http.traffic import EndpointLimits, Pacer
from skillwright.models.http.wire import TurnTooLate


def traffic(clock):
    config = OpenAIChatConfig(model="m", base_url="http://a/v1")
    return EndpointLimits().traffic(config, "", sleep=clock.sleep, clock=clock)


def meet(found, error, status):
    """Let an attempt end with an error."""
    trial = found.trial(Purpose.ROLLOUT, found.circuit("m"))
    with contextlib.suppress(type(error)), trial:
        trial.status = status
        raise error


async def test_requests_per_minute_are_spread_evenly(clock):
    pacer = Pacer(clock.sleep, clock)
    pacer.narrow(requests=30, tokens=None)
    starts = []
    for _ in range(4):
        await pacer.turn(1000)
        starts.append(clock.now)
    assert starts == [0, 2, 4, 6]


async def test_tokens_per_minute_hold_back_whoever_comes_after_a_long_call(clock):
    pacer = Pacer(clock.sleep, clock)
    pacer.narrow(requests=None, tokens=600)
    await pacer.turn(100)
    await pacer.turn(0)
    assert clock.now == 10
    pacer.settle(0, 50)  # it took more than was expected
    await pacer.turn(0)
    assert clock.now == 15


async def test_a_pause_that_one_caller_is_asked_for_holds_all(clock):
    found = traffic(clock)
    meet(found, EndpointFault("busy", retry_after_s=7), 429)
    await found.pacer.turn(1)
    assert clock.now == 7


@pytest.mark.parametrize("asked_s", [121, 3600])
async def test_a_pause_that_is_none_holds_nobody(clock, asked_s):
    found = traffic(clock)
    meet(found, EndpointFault("busy", retry_after_s=asked_s), 429)
    await found.pacer.turn(1)
    assert clock.waits == []


async def test_nobody_waits_for_a_turn_past_the_deadline(clock):
    pacer = Pacer(clock.sleep, clock)
    pacer.hold(100)
    with pytest.raises(TurnTooLate, match="asked everybody to wait, 100 s") as caught:
        await pacer.turn(1, within_s=30)
    assert clock.now == 30
    assert caught.value.failed_calls == 0
    await pacer.turn(1, within_s=70)
    assert clock.now == 100
    pacer.narrow(requests=1, tokens=None)
    await pacer.turn(1)
    with pytest.raises(TurnTooLate, match="requests_per_minute"):
        await pacer.turn(1, within_s=59)


async def test_whoever_does_not_wait_for_a_turn_gives_the_place_back(clock):
    forever = asyncio.Event()

    async def sleep(seconds):
        del seconds
        await forever.wait()

    pacer = Pacer(sleep, clock)
    pacer.narrow(requests=60, tokens=600)
    await pacer.turn(100)
    waiting = [asyncio.create_task(pacer.turn(100)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    clock.now = 10.0
    await pacer.turn(100)  # at once: 100 tokens are ten seconds, and 50 others left


async def test_a_long_pause_for_one_call_lets_the_others_go_on(make_chat, mock_openai, clock):
    chat = make_chat()
    mock_openai.next(status(429, retry_after="3600"))
    asked = [{"role": "user", "content": "hello"}]
    with pytest.raises(EndpointFault, match="wait 3600 s"):
        await chat.complete(asked, purpose=Purpose.ROLLOUT)
    assert (await chat.complete(asked, purpose=Purpose.ROLLOUT)).text == "ok"
    assert clock.now == 0


async def test_an_attempt_has_what_its_turn_left_of_the_deadline(make_chat, client, clock):
    given_s = []
    post = client.post_json

    async def noting(*args, timeout_s, **about):
        given_s.append(timeout_s)
        return await post(*args, timeout_s=timeout_s, **about)

    client.post_json = noting
    chat = make_chat(requests_per_minute=1, deadline_s=100, timeout_s=90)
    asked = [{"role": "user", "content": "hello"}]
    for _ in range(2):
        await chat.complete(asked, purpose=Purpose.ROLLOUT)
    assert given_s == [90, 40]
    await chat.complete(asked, purpose=Purpose.ROLLOUT)
    chat._traffic.pacer.hold(101)
    with pytest.raises(ModelTimeout, match="asked everybody to wait"):
        await chat.complete(asked, purpose=Purpose.ROLLOUT)
    assert clock.now == 220


async def test_a_failed_attempt_gives_back_the_tokens_that_it_did_not_take(
    make_chat, mock_openai, clock
):
    chat = make_chat(tokens_per_minute=60)
    mock_openai.next(status(500))
    asked = [{"role": "user", "content": "x" * 4000}]
    answer = await chat.complete(asked, purpose=Purpose.ROLLOUT)
    assert answer.usage.failed_calls == 1
    assert clock.now < 10  # the thousand tokens of the attempt that failed would be 1,000 s


async def test_without_bounds_nobody_waits(clock):
    pacer = Pacer(clock.sleep, clock)
    for _ in range(100):
        await pacer.turn(10_000)
    assert clock.waits == []

"""The last calls of a wave are asked again once they are late; the first answer counts."""

import asyncio
from collections import deque

import pytest

from mock_openai import MockOpenAI
from skillwright.core import Purpose, Usage
from skillwright.core.paths import Ahead, played_ahead
from skillwright.models import EndpointFault
from skillwright.models.http.hedge import LAST, LATE, Hedges, hedged


def ask(chat):
    return chat.complete([{"role": "user", "content": "hi"}], purpose=Purpose.ROLLOUT)


async def at_once():
    pass


async def never():
    await asyncio.Event().wait()


class Attempts:
    """Attempts that end when they are told to."""

    def __init__(self):
        self.ends = []
        self.cancelled = 0

    async def __call__(self):
        end = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        try:
            return await end
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def started(self, count):
        for _ in range(100):
            if len(self.ends) == count:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.ends)} attempts of {count} were made")


async def test_a_quick_answer_is_asked_for_once():
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, never(), lambda: True))
    await attempts.started(1)
    attempts.ends[0].set_result("first")
    assert await call == ("first", False)
    assert attempts.cancelled == 0


@pytest.mark.parametrize("winner", [0, 1])
async def test_beside_a_slow_one_the_first_answer_wins_and_the_other_is_cancelled(winner):
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, at_once(), lambda: True))
    await attempts.started(2)
    attempts.ends[winner].set_result("won")
    assert await call == ("won", True)
    assert attempts.cancelled == 1


async def test_one_that_fails_leaves_it_to_the_other():
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, at_once(), lambda: True))
    await attempts.started(2)
    attempts.ends[0].set_exception(EndpointFault("reset"))
    await asyncio.sleep(0)
    attempts.ends[1].set_result("won")
    assert await call == ("won", True)


async def test_where_both_fail_the_first_ones_fault_is_told():
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, at_once(), lambda: True))
    await attempts.started(2)
    attempts.ends[1].set_exception(EndpointFault("second"))
    await asyncio.sleep(0)
    attempts.ends[0].set_exception(EndpointFault("first"))
    with pytest.raises(EndpointFault, match="first"):
        await call


async def test_without_room_nobody_is_asked_twice():
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, at_once(), lambda: False))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(attempts.ends) == 1
    attempts.ends[0].set_result("first")
    assert await call == ("first", False)


async def test_a_cancelled_call_leaves_nothing_running():
    attempts = Attempts()
    call = asyncio.create_task(hedged(attempts, at_once(), lambda: True))
    await attempts.started(2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert attempts.cancelled == 2


# --- which calls ---------------------------------------------------------------------------------


class World:
    """Calls of one wave, and a clock that goes when it is told to."""

    def __init__(self, share, median_s=1.0):
        self.now = 0.0
        self.share = share
        self.median_s = median_s
        self.sleepers = deque()
        self.late = []
        self.hedges = Hedges(lambda purpose: self.median_s, self.sleep, lambda: self.now)

    async def sleep(self, seconds):
        woken = asyncio.Event()
        self.sleepers.append((self.now + seconds, woken))
        await woken.wait()

    async def call(self, name, end):
        with self.hedges.call(Purpose.ROLLOUT, self.share) as one:
            timer = asyncio.create_task(self.watch(name, one))
            await end.wait()
            timer.cancel()

    async def watch(self, name, one):
        await self.hedges.is_late(one, Purpose.ROLLOUT, self.share)
        self.late.append(name)

    def begin(self, count):
        ends = [asyncio.Event() for _ in range(count)]
        self.tasks = [asyncio.create_task(self.call(n, end)) for n, end in enumerate(ends)]
        return ends

    async def until(self, now):
        """Let all that is due at present happen, then the time pass, and what is due then."""
        for time in (self.now, now):
            self.now = time
            for _ in range(20):
                await asyncio.sleep(0)
                for at, woken in self.sleepers:
                    if at <= self.now:
                        woken.set()

    async def close(self, ends):
        for end in ends:
            end.set()
        await asyncio.wait(self.tasks)


async def test_only_the_last_calls_of_a_wave_are_asked_again_and_only_when_they_are_late():
    world = World(share=0.25)
    ends = world.begin(40)
    await world.until(LATE)
    assert world.late == []  # all of them are late, and 40 are more than the last ones
    for end in ends[:31]:
        end.set()
    await world.until(LATE)
    assert world.late == [*range(31, 40)]
    assert world.hedges.again == 9
    await world.close(ends)


async def test_the_last_calls_are_given_their_time():
    world = World(share=0.25)
    ends = world.begin(40)
    await world.until(0.5 * LATE)
    for end in ends[:35]:
        end.set()
    await world.until(0.9 * LATE)
    assert world.late == []
    await world.until(LATE)
    assert world.late == [*range(35, 40)]
    await world.close(ends)


async def test_no_more_are_asked_again_than_the_share_of_all_calls():
    world = World(share=0.05)
    ends = world.begin(50)
    await world.until(1.0)
    for end in ends[: 50 - LAST]:
        end.set()
    await world.until(9.0)
    assert len(world.late) == world.hedges.again == 2
    await world.close(ends)
    for _ in range(19):
        (end,) = world.begin(1)
        await world.until(world.now + 9.0)
        await world.close([end])
    assert world.hedges.calls == 69
    assert world.hedges.again == 3


async def test_while_nobody_knows_how_long_its_kind_takes_nothing_is_late():
    world = World(share=1.0, median_s=None)
    ends = world.begin(2)
    await world.until(99.0)
    assert world.late == []
    world.median_s = 1.0
    await world.until(99.0)
    assert world.late == []
    ends[0].set()  # each answer is a chance to know
    await world.until(99.0)
    assert world.late == [1]
    await world.close(ends)


async def ask_twice(chat, mock_openai):
    """Ask where the first answer comes only after a second question; return the answer."""
    both = asyncio.Event()
    plain, asked = mock_openai.handler, 0

    async def slow_first(body):
        nonlocal asked
        asked += 1
        if asked == 1:
            await both.wait()
        return await plain(body)

    mock_openai.handler = slow_first
    try:
        return await ask(chat)
    finally:
        both.set()
        mock_openai.handler = plain


async def test_a_hedged_call_counts_both_and_gives_its_place_back(
    make_chat, mock_openai: MockOpenAI
):
    chat = make_chat(hedge=0.5)
    for _ in range(4):
        await ask(chat)
    before = len(mock_openai.bodies)
    answer = await ask_twice(chat, mock_openai)
    assert len(mock_openai.bodies) == before + 2
    assert answer.usage == Usage(calls=2, input_tokens=20, output_tokens=2, cost_usd=None)
    await mock_openai.until(lambda server: server.in_flight == 0)
    assert chat._traffic.limiter.in_flight == 0


async def test_what_nobody_waits_for_yet_is_asked_once(make_chat, mock_openai: MockOpenAI):
    chat = make_chat(hedge=1.0)
    for _ in range(4):
        await ask(chat)
    calls = chat._traffic.hedges.calls
    with played_ahead(Ahead()):
        await ask(chat)
    assert chat._traffic.hedges.calls == calls

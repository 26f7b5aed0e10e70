"""Several processes keep the bounds of an endpoint together; here they are objects of one loop."""

import asyncio

import pytest

from skillwright.core import Purpose
from skillwright.models import OpenAIChatConfig
from skillwright.models.http.wire import TurnTooLate
from skillwright.plugins.ray.leases import (
    EXPIRE_S,
    Demand,
    EndpointLedger,
    Grant,
    LeasedLimits,
    Rates,
)

URL = "http://127.0.0.1:1/v1"


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.now += seconds
        await asyncio.sleep(0)


class Direct:
    """A `LedgerClient` without a network in between."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.turn, self.settle, self.hold = ledger.turn, ledger.settle, ledger.hold

    async def renew(self, holder, demands):
        return self.ledger.renew(holder, demands)


def config(**settings):
    return OpenAIChatConfig(model="m", base_url=URL, **settings)


def one(ledger, holder, in_flight, wanted, most=12):
    return ledger.renew(holder, {"e": Demand(most, in_flight, wanted)})["e"].places


def test_places_are_divided_by_what_is_wanted_and_never_lent_twice():
    ledger = EndpointLedger(clock=Clock())
    assert one(ledger, "a", 0, 30) == 12
    assert one(ledger, "b", 0, 30) == 0, "all are lent"
    assert one(ledger, "a", 12, 30) == 12, "what is in flight is not taken away"
    assert one(ledger, "a", 5, 30) == 6, "then half of them"
    assert one(ledger, "b", 0, 30) == 6
    assert one(ledger, "c", 0, 2) == 0
    assert one(ledger, "a", 4, 30) == 5
    assert one(ledger, "c", 0, 2) == 1
    assert one(ledger, "b", 0, 0) == 0
    assert one(ledger, "c", 1, 2) == 2
    assert one(ledger, "a", 5, 30) == 10, "what others do not want is there for it"


def test_the_narrowest_bound_that_anybody_has_holds_for_all():
    ledger = EndpointLedger(clock=Clock())
    assert one(ledger, "a", 0, 30, most=8) == 8
    assert one(ledger, "b", 0, 30, most=12) == 0


def test_places_of_a_process_that_is_gone_come_back():
    clock = Clock()
    ledger = EndpointLedger(clock=clock)
    assert one(ledger, "a", 0, 30) == 12
    clock.now += EXPIRE_S + 1
    assert one(ledger, "b", 0, 30) == 12


@pytest.mark.parametrize("seed", range(20))
def test_all_together_never_have_more_places_than_there_are(seed):
    import random

    dice, ledger = random.Random(seed), EndpointLedger(clock=Clock())
    lent = dict.fromkeys("abcde", 0)
    for _ in range(300):
        name = dice.choice("abcde")
        in_flight = dice.randint(0, lent[name])
        lent[name] = one(ledger, name, in_flight, in_flight + dice.randint(0, 20))
        assert sum(lent.values()) <= 12


async def test_a_limiter_lets_through_what_is_lent_and_asks_when_that_is_too_little():
    ledger = EndpointLedger()
    limits = [LeasedLimits(Direct(ledger), name) for name in "ab"]
    settings = config(max_concurrent=6, start_concurrent=6)
    limiters = [one.traffic(settings, "").limiter for one in limits]
    assert [one.limit for one in limiters] == [0, 0]
    held, most = asyncio.Event(), 0

    async def call(limiter):
        nonlocal most
        async with limiter.slot():
            most = max(most, sum(one.in_flight for one in limiters))
            await held.wait()

    async with asyncio.TaskGroup() as group:
        for limiter in limiters * 5:
            group.create_task(call(limiter))
        for _ in range(9):
            await asyncio.sleep(0)
            for one in limits:
                await one.renew()
        assert [one.in_flight for one in limiters] == [5, 1]
        held.set()
        for _ in range(9):
            await asyncio.sleep(0)
            for one in limits:
                await one.renew()
    assert most == 6


async def test_a_rate_is_one_for_all_processes():
    clock = Clock()
    ledger = EndpointLedger(clock.sleep, clock)
    settings = config(requests_per_minute=60)
    pacers = [
        LeasedLimits(Direct(ledger), name).traffic(settings, "", sleep=clock.sleep, clock=clock)
        for name in "ab"
    ]
    for _ in range(5):
        for traffic in pacers:
            await traffic.pacer.turn(10)
    assert clock.now == pytest.approx(9.0)
    with pytest.raises(TurnTooLate, match="requests_per_minute"):
        await pacers[0].pacer.turn(10, within_s=0.5)


async def test_an_endpoint_that_asks_one_process_to_wait_is_left_alone_by_all():
    clock = Clock()
    ledger = EndpointLedger(clock.sleep, clock)
    a, b = (LeasedLimits(Direct(ledger), name) for name in "ab")
    traffics = [one.traffic(config(), "", sleep=clock.sleep, clock=clock) for one in (a, b)]
    traffics[0].pacer.hold(30.0)
    await b.renew()
    await traffics[1].pacer.turn(1)
    assert clock.now >= 30.0


async def test_what_an_answer_really_took_corrects_the_time_line_of_all():
    clock = Clock()
    ledger = EndpointLedger(clock.sleep, clock)
    rates = Rates(None, 60)
    assert await ledger.turn("e", rates, 30, 100.0) == ""
    ledger.settle("e", 30, 5)
    assert await ledger.turn("e", rates, 1, 100.0) == ""
    assert clock.now == pytest.approx(5.0)


def test_a_grant_is_by_endpoint_and_purposes_share_it():
    ledger = EndpointLedger(clock=Clock())
    demands = {"e": Demand(4, 0, 9), "f": Demand(2, 0, 1)}
    assert ledger.renew("a", demands) == {"e": Grant(4, 0.0), "f": Grant(1, 0.0)}
    limits = LeasedLimits(Direct(ledger), "a")
    assert limits.traffic(config(), "") is limits.traffic(config(), "")
    assert limits.traffic(config(), "").latencies(Purpose.ROLLOUT).median_s is None

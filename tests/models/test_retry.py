import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import ModelError, ModelRefused, ModelTimeout, ReplyInvalid, Usage
from skillwright.models import EndpointDown, EndpointFault
from skillwright.models.http.retry import Retry, retry_after_s
from skillwright.models.http.wire import GarbledReply


def fails(*faults, then="done"):
    """Make an attempt that raises each fault once, and then answers."""
    left = list(faults)
    given_s = []

    async def attempt(timeout_s):
        given_s.append(timeout_s)
        if left:
            raise left.pop(0)
        return then

    attempt.given_s = given_s
    return attempt


def make_retry(clock, **settings):
    return Retry(sleep=clock.sleep, clock=clock, **settings)


async def test_an_answer_at_once_waits_for_nothing(clock):
    assert await make_retry(clock).call(fails()) == ("done", Usage())
    assert clock.waits == []


@pytest.mark.parametrize("fault", [EndpointFault("down"), ModelTimeout("late")])
async def test_faults_and_timeouts_are_tried_again(clock, fault):
    assert await make_retry(clock).call(fails(fault, fault)) == ("done", Usage(failed_calls=2))


@pytest.mark.parametrize("error", [ModelRefused("no"), ReplyInvalid("what"), ModelError("odd")])
async def test_refusals_and_invalid_replies_are_not_tried_again(clock, error):
    with pytest.raises(type(error)) as caught:
        await make_retry(clock).call(fails(EndpointFault("down"), error))
    assert caught.value is error
    assert error.failed_calls == 2
    assert len(clock.waits) == 1


async def test_a_bug_escapes_as_it_is(clock):
    with pytest.raises(KeyError):
        await make_retry(clock).call(fails(KeyError("oops")))


async def test_cancellation_is_not_a_fault(clock):
    with pytest.raises(asyncio.CancelledError):
        await make_retry(clock).call(fails(asyncio.CancelledError()))
    assert clock.waits == []


async def test_the_last_fault_is_raised_with_what_was_spent(clock):
    with pytest.raises(EndpointFault, match=r"down Gave up after 3 attempts in \d") as caught:
        await make_retry(clock, max_attempts=3).call(fails(*[EndpointFault("down")] * 3))
    assert caught.value.failed_calls == 3
    assert len(clock.waits) == 2  # nobody waits after the last attempt


async def test_a_single_attempt_is_not_repeated(clock):
    with pytest.raises(ModelTimeout, match="after 1 attempt in"):
        await make_retry(clock, max_attempts=1).call(fails(ModelTimeout("late")))


async def test_the_wait_is_never_shorter_than_asked_for(clock):
    await make_retry(clock).call(fails(EndpointFault("busy", retry_after_s=42)))
    assert 42 <= clock.waits[0] <= 42.5


async def test_a_wait_past_the_deadline_is_given_up_at_once(clock):
    retry = make_retry(clock, deadline_s=60, timeout_s=60)
    with pytest.raises(EndpointFault, match="asks to wait 90 s, past the deadline_s of 60"):
        await retry.call(fails(EndpointFault("busy", retry_after_s=90)))
    assert clock.waits == []


async def test_nobody_waits_for_as_long_as_an_endpoint_likes(clock):
    with pytest.raises(EndpointFault, match="wait 3600 s; more than 120 are no pause"):
        await make_retry(clock).call(fails(EndpointFault("busy", retry_after_s=3600)))
    assert clock.waits == []


async def test_an_endpoint_that_is_known_to_be_dead_costs_time_and_no_attempt(clock):
    down = [EndpointDown("dead", retry_after_s=5)] * 4
    attempt = fails(EndpointFault("reset"), *down)
    assert await make_retry(clock, max_attempts=2).call(attempt) == ("done", Usage(failed_calls=1))
    assert 20 <= clock.now <= 23


async def test_nobody_waits_for_a_dead_endpoint_past_the_deadline(clock):
    down = [EndpointDown("dead", retry_after_s=5)] * 100
    retry = make_retry(clock, deadline_s=30, timeout_s=30)
    with pytest.raises(EndpointDown, match=r"waited 2\d s") as caught:
        await retry.call(fails(EndpointFault("reset"), *down))
    assert caught.value.failed_calls == 1
    assert clock.now < 30


async def test_a_sleep_that_returns_at_once_ends_as_well():
    async def no_wait(seconds):
        del seconds

    with pytest.raises(EndpointDown):
        await Retry(sleep=no_wait).call(fails(*[EndpointDown("dead", retry_after_s=5)] * 999))


async def test_after_a_fault_that_is_no_overload_the_waits_are_short(clock):
    def first_wait(status):
        clock.waits.clear()
        fault = EndpointFault("fault", status=status)
        return make_retry(clock, uniform=lambda low, high: (low + high) / 2).call(fails(fault))

    await first_wait(0)
    assert clock.waits == [pytest.approx(0.2)]
    await first_wait(429)
    assert clock.waits == [pytest.approx(1.0)]


async def test_what_failed_attempts_were_charged_for_is_not_lost(clock):
    charged = GarbledReply("no choice")
    charged.usage = Usage(input_tokens=7, cost_usd=0.5)
    _, lost = await make_retry(clock).call(fails(charged, EndpointFault("reset"), charged))
    assert lost == Usage(input_tokens=14, cost_usd=1.0, failed_calls=3)
    with pytest.raises(GarbledReply) as caught:
        await make_retry(clock, max_attempts=2).call(fails(charged, charged))
    assert (caught.value.failed_calls, caught.value.usage.cost_usd) == (2, 1.0)
    assert caught.value.usage.failed_calls == 0


async def test_the_deadline_bounds_all_attempts_and_the_time_of_each(clock):
    async def slow(timeout_s):
        given_s.append(timeout_s)
        clock.now += timeout_s
        raise ModelTimeout("late")

    given_s = []
    with pytest.raises(ModelTimeout):
        await make_retry(clock, timeout_s=40, deadline_s=100, max_attempts=9).call(slow)
    assert given_s[:2] == [40, 40]
    assert 0 < given_s[2] < 20
    assert clock.now <= 100


@given(st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_waits_stay_between_the_first_and_the_longest(draws):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    left = list(draws)
    retry = Retry(sleep=sleep, uniform=lambda low, high: low + (high - low) * left.pop(0))
    asyncio.run(retry.call(fails(*[EndpointFault("busy", status=429)] * 5)))
    assert all(0.5 <= wait <= 30 for wait in waits)
    assert all(after <= 3 * before for before, after in pairwise(waits))


SENT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "?", "retry-after": "9"}, 9),
        (
            {
                "retry-after": format_datetime(SENT + timedelta(seconds=20), usegmt=True),
                "date": format_datetime(SENT, usegmt=True),
            },
            20,
        ),
        ({"retry-after": format_datetime(SENT - timedelta(days=999), usegmt=True)}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after_s(headers) == seconds


def test_a_date_without_the_replys_own_date_is_measured_from_now():
    later = datetime.now(UTC) + timedelta(hours=1)
    assert 3500 < retry_after_s({"retry-after": format_datetime(later, usegmt=True)}) < 3700

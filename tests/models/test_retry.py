import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import ModelError, ModelRefused, ModelTimeout, ReplyInvalid
from skillwright.models.faults import EndpointFault
from skillwright.models.retry import Retry, retry_after_s


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
    assert await make_retry(clock).call(fails()) == ("done", 0)
    assert clock.waits == []


@pytest.mark.parametrize("fault", [EndpointFault("down"), ModelTimeout("late")])
async def test_faults_and_timeouts_are_tried_again(clock, fault):
    assert await make_retry(clock).call(fails(fault, fault)) == ("done", 2)


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
    with pytest.raises(EndpointFault, match="asks to wait 3600 s, past the deadline_s of 60"):
        await retry.call(fails(EndpointFault("busy", retry_after_s=3600)))
    assert clock.waits == []


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
    asyncio.run(retry.call(fails(*[EndpointFault("down")] * 5)))
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

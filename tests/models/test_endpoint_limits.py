import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.models.limits import EndpointLimits, Limiter


def test_models_on_one_endpoint_and_key_share_a_limiter_with_the_smallest_bound():
    limits = EndpointLimits()
    shared = limits.limiter("http://a/v1", "k", 8)
    assert limits.limiter("http://a/v1", "k", 3) is shared
    assert limits.limiter("http://a/v1", "k", 5).limit == 3
    assert limits.limiter("http://a/v1", "other", 5) is not shared
    assert limits.limiter("http://b/v1", "k", 5).limit == 5


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


@given(
    limit=st.integers(1, 4),
    visits=st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.integers(0, 6)), min_size=1, max_size=12
    ),
)
def test_no_mix_of_visits_and_cancellations_breaks_the_bound_or_loses_a_place(limit, visits):
    async def scenario():
        limiter = Limiter(limit)
        most = 0

        async def visit(turns):
            nonlocal most
            async with limiter.slot():
                most = max(most, limiter.in_flight)
                for _ in range(turns):
                    await asyncio.sleep(0)

        async def leave(task, turns):
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()

        async with asyncio.TaskGroup() as group:
            for turns, cancelled_after in visits:
                task = group.create_task(visit(turns))
                if cancelled_after is not None:
                    group.create_task(leave(task, cancelled_after))
        assert most <= limit
        assert limiter.in_flight == 0
        async with asyncio.timeout(1), limiter.slot():
            assert limiter.in_flight == 1

    asyncio.run(scenario())

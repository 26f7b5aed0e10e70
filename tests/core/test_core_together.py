import asyncio

import pytest

from skillwright.core import RunError
from skillwright.core.concurrency import together


async def full_disk():
    raise RunError("make room") from OSError("no space")


async def test_results_come_in_the_order_of_the_works():
    late = asyncio.Event()

    async def first():
        await late.wait()
        return "first"

    async def second():
        late.set()
        return "second"

    assert await together([first(), second()]) == ["first", "second"]
    assert await together([]) == []


async def test_an_error_comes_out_as_itself_with_its_cause_and_cancels_the_others():
    cancelled = asyncio.Event()

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(RunError, match="make room") as caught:
        await together([forever(), together([full_disk()])])
    assert isinstance(caught.value.__cause__, OSError)
    assert cancelled.is_set()

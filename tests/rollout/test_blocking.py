import asyncio
import threading

import pytest

from skillwright.rollout.loop_thread import LoopThread


async def where():
    return asyncio.get_running_loop(), threading.current_thread()


def test_all_calls_share_one_loop_in_one_private_thread():
    loops = LoopThread()
    first, second = loops.run(where()), loops.run(where())
    assert first == second
    assert first[1] is not threading.current_thread()
    loops.close()
    assert not first[1].is_alive()
    assert first[0].is_closed()


def test_it_can_be_used_again_after_it_was_closed():
    loops = LoopThread()
    loops.close()
    loops.run(where())
    loops.close()
    loops.close()


def test_closing_cancels_what_still_runs():
    loops = LoopThread()
    seen = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async def start():
        return asyncio.create_task(forever())

    started = loops.run(start())
    loops.close()
    assert seen == ["cancelled"]
    assert started.cancelled()


def test_an_error_reaches_the_caller():
    loops = LoopThread()

    async def fail():
        raise ZeroDivisionError("inside")

    with pytest.raises(ZeroDivisionError, match="inside"):
        loops.run(fail())
    loops.close()


def test_the_thread_ends_with_the_last_reference():
    loops = LoopThread()
    _, thread = loops.run(where())
    del loops
    assert not thread.is_alive()

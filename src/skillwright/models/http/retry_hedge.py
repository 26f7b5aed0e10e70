"""A second attempt beside a slow first one: the first answer counts, the other is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def hedged(
    attempt: Callable[[], Coroutine[Any, Any, Answer]],
    after_s: float,
    sleep: Callable[[float], Awaitable[None]],
    may_send: Callable[[], bool],
) -> tuple[Answer, bool]:
    """Make an attempt, and a second one beside it where the first takes too long.

    Returns:
        The first answer, and whether a second attempt was made. Nothing is left running.
    """
    tasks = [asyncio.create_task(attempt())]
    timer = asyncio.ensure_future(sleep(after_s))
    try:
        await asyncio.wait([*tasks, timer], return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done() or not may_send():
            return await tasks[0], False
        tasks.append(asyncio.create_task(attempt()))
        open_ones = set(tasks)
        while open_ones:
            done, open_ones = await asyncio.wait(open_ones, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task in done and task.exception() is None:
                    return task.result(), True
        return await tasks[0], True
    finally:
        running: list[asyncio.Future[Any]] = [t for t in (*tasks, timer) if not t.done()]
        for left in running:
            left.cancel()
        # Waited for, so that no request outlives the call that made it.
        if running:
            await asyncio.wait(running)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # looked at, so that nobody warns that it never was

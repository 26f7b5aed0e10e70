"""Hedged requests: second attempts for the last late calls of a wave.

Calls come in waves: a batch of episodes, a few analysts, one merge. A wave takes as long as its
last answer, and latencies have a long tail. So only the last calls of a wave get a second attempt
when they are late, up to a share of all calls, which bounds the cost.

Source: J. Dean and L. A. Barroso, The Tail at Scale (2013), where any request slower than a
quantile is hedged.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from skillwright.core import Purpose

Answer = TypeVar("Answer")

LAST = 3
"""Minimum number of last calls of a wave; for large waves, the share is larger."""
LATE = 1.3
"""Multiple of the median latency of its kind after which a call is late."""


async def hedged(
    attempt: Callable[[], Coroutine[Any, Any, Answer]],
    is_late: Coroutine[Any, Any, None],
    may_send: Callable[[], bool],
) -> tuple[Answer, bool]:
    """Make an attempt, and a concurrent second one once ``is_late`` returns.

    Return the first answer, and whether there was a second attempt; the other one is cancelled.
    """
    tasks = [asyncio.create_task(attempt())]
    timer = asyncio.create_task(is_late)
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
        # Awaited, so that no request outlives its call.
        if running:
            await asyncio.wait(running)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # retrieved, or asyncio would warn


class Call:
    """A call of a wave; ``started`` is the time of its current attempt."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.woken = asyncio.Event()


class Wave:
    """Concurrent calls of one kind, from the first until none is left."""

    def __init__(self) -> None:
        self.open: dict[Call, None] = {}
        self.peak = 0

    def is_ending(self, share: float) -> bool:
        """Return whether only its last calls are left."""
        return len(self.open) <= max(LAST, int(share * self.peak))


class Hedges:
    """Decides which calls at an endpoint get a second attempt, and counts them.

    ``median_s`` returns the median latency of a purpose in seconds, or ``None`` if unknown.
    """

    def __init__(
        self,
        median_s: Callable[[Purpose], float | None],
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self.calls = 0
        self.again = 0
        self._median_s = median_s
        self._sleep = sleep
        self._clock = clock
        self._waves: dict[Purpose, Wave] = defaultdict(Wave)

    @contextmanager
    def call(self, purpose: Purpose, share: float) -> Iterator[Call]:
        """Count a call in its wave until the block ends."""
        wave, one = self._waves[purpose], Call(self._clock())
        self.calls += 1
        wave.open[one] = None
        wave.peak = max(wave.peak, len(wave.open))
        self._wake(wave, share)
        try:
            yield one
        finally:
            del wave.open[one]
            wave.peak = wave.peak if wave.open else 0
            self._wake(wave, share)

    def _wake(self, wave: Wave, share: float) -> None:
        if wave.is_ending(share):
            for left in wave.open:
                left.woken.set()

    async def is_late(self, one: Call, purpose: Purpose, share: float) -> None:
        """Return when a call should get a second attempt, and count it; maybe never."""
        wave = self._waves[purpose]
        while True:
            await one.woken.wait()
            median_s = self._median_s(purpose)
            if median_s is not None:
                await self._sleep(max(0.0, one.started + LATE * median_s - self._clock()))
                if wave.is_ending(share) and self.again + 1 <= share * self.calls:
                    self.again += 1
                    return
            one.woken.clear()  # until another call of the wave ends

"""A second attempt next to a slow first one, where it shortens a wait: at the end of a wave.

Calls come in waves: a batch of episodes, a few analysts, one merge. The caller of a wave waits
for its last answer, and where latencies have a tail that takes several times as long as the median.
A second attempt in the middle of a wave shortens nothing. So only the last ones are asked
again, once they are late, and never more than a share of all calls: the cost is bounded.

Source: J. Dean and L. A. Barroso, The Tail at Scale (2013), hedged requests; there any request is
hedged that is slower than a quantile.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from skillwright.core import Purpose

Answer = TypeVar("Answer")

LAST = 3
"""Number of last calls of a wave, however small it is; in a large one, the share counts."""
LATE = 1.3
"""A call is late once it took this multiple of the median of its kind."""


async def hedged(
    attempt: Callable[[], Coroutine[Any, Any, Answer]],
    is_late: Coroutine[Any, Any, None],
    may_send: Callable[[], bool],
) -> tuple[Answer, bool]:
    """Make an attempt, and a concurrent second one once ``is_late`` returns.

    Returns:
        The first answer, and whether a second attempt was made. Nothing is left running.
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
        # Waited for, so that no request outlives the call that made it.
        if running:
            await asyncio.wait(running)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # read, or asyncio warns that it never was


class Call:
    """One call of a wave.

    Attributes:
        started: When its present attempt was sent, by the clock of its wave.
    """

    def __init__(self, started: float) -> None:
        self.started = started
        self.woken = asyncio.Event()


class Wave:
    """The calls of one kind that are waited for, from when there is one until there is none."""

    def __init__(self) -> None:
        self.open: dict[Call, None] = {}
        self.peak = 0

    def is_ending(self, share: float) -> bool:
        """Whether only its last calls are left."""
        return len(self.open) <= max(LAST, int(share * self.peak))


class Hedges:
    """Says when a call at one endpoint is to be asked again, and keeps count.

    Args:
        median_s: The median latency of a purpose in seconds, or ``None`` while it is unknown.
        sleep: Waits.
        clock: Seconds that only go forward.
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
        """Count a call among those of its wave for as long as the block lasts."""
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
        """Return when a call is to be asked again, which is counted; it may be never."""
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

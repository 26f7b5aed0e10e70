"""Limits on concurrent and waiting requests; further ones are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skillwright.core import SkillwrightError


class Busy(SkillwrightError):
    """The queue of waiting requests is full."""


class Slots:
    """Limits concurrent and waiting requests."""

    def __init__(self, most: int, most_waiting: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._most, self._most_waiting = most, most_waiting
        self.waiting = 0
        self.in_flight = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it; raise `Busy` if the queue is full."""
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise Busy(
                f"{self._most} requests are being answered and {self.waiting} wait; try again "
                "in a moment, or raise --max-concurrent"
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._free.release()

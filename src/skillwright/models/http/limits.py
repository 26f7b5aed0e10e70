"""How many calls an endpoint is given at once: a bound that finds its own height.

It doubles until a first cut, then rises by one per round of answers, and only while it holds
calls back. One wave of trouble is one cut. Source: TCP's slow start, additive increase and
multiplicative decrease (RFC 5681).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

START = 16
"""Calls at once before an endpoint has shown what it bears."""


class Limiter:
    """Admits at most ``limit`` calls at a time, in the order in which they came.

    For one event loop.

    Attributes:
        in_flight: Calls that are admitted and have not ended.
        round: How often it was cut; an attempt remembers it, for `cut`.
    """

    def __init__(self, most: int, start: int = START, least: int = 1) -> None:
        self.in_flight = 0
        self.round = 0
        self._most = most
        self._least = min(least, most)
        self._level = float(min(start, most))
        self._is_new = True
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Calls that are admitted at a time, now."""
        return int(self._level)

    def narrow(self, most: int, least: int) -> None:
        """Keep within the bounds of another model on the same endpoint too."""
        self._most = min(self._most, most)
        self._least = min(max(self._least, least), self._most)
        self._level = min(max(self._level, self._least), self._most)

    def rise(self) -> None:
        """Take note of an answer; call it while the answered call still has its place."""
        if self.in_flight < self.limit:
            return
        self._level = min(self._most, self._level + (1.0 if self._is_new else 1.0 / self._level))
        self._admit()

    def cut(self, factor: float, since: int, floor: int = 1) -> None:
        """Take note of trouble."""
        if since < self.round or self._level <= floor:
            return
        self.round += 1
        self._is_new = False
        self._level = max(float(self._least), float(floor), self._level * factor)

    def enter_at_once(self) -> bool:
        """Take a place where one is free and nobody waits for it; end with `leave`."""
        if self.in_flight >= self.limit or self._queue:
            return False
        self.in_flight += 1
        return True

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for admission, and give the place on when the block ends."""
        await self._enter()
        try:
            yield
        finally:
            self.leave()

    async def _enter(self) -> None:
        if self.enter_at_once():
            return
        ticket = asyncio.get_running_loop().create_future()
        self._queue.append(ticket)
        try:
            await ticket  # whoever leaves hands the place over: it is counted already
        except asyncio.CancelledError:
            # A cancelled ticket stays in the queue and is dropped when its turn comes.
            if not ticket.cancelled():
                self.leave()  # cancelled between the hand-over and waking up
            raise

    def leave(self) -> None:
        """Give a place on."""
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._queue and self.in_flight < self.limit:
            ticket = self._queue.popleft()
            if not ticket.done():
                self.in_flight += 1
                ticket.set_result(None)

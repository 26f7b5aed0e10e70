"""A first-come, first-served limit on concurrent work."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A semaphore of one event loop for at most ``limit`` tasks, in order of arrival."""

    def __init__(self, limit: int) -> None:
        self.in_flight = 0
        self._limit = limit
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Maximum number of tasks with a slot."""
        return self._limit

    def enter_at_once(self) -> bool:
        """Take a slot without waiting, if one is free and no task waits; `leave` returns it."""
        if self.in_flight >= self.limit or self._queue:
            return False
        self.in_flight += 1
        return True

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and return it when the block ends."""
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
            await ticket  # `_let_in` has already counted this task
        except asyncio.CancelledError:
            # A cancelled ticket stays in the queue and is dropped when its turn comes.
            if not ticket.cancelled():
                self.leave()  # cancelled after `_let_in` counted it
            raise

    def leave(self) -> None:
        """Return a slot."""
        self.in_flight -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and self.in_flight < self.limit:
            ticket = self._queue.popleft()
            if not ticket.done():
                self.in_flight += 1
                ticket.set_result(None)

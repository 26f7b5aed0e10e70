"""How many calls an endpoint is given at once.

A limit belongs to an endpoint and key, not to a model: two models on one server queue together.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skillwright.core.jsonio import text_digest


class Limiter:
    """Admits at most ``limit`` calls at a time, in the order in which they came.

    The limit may change while calls wait. For one event loop.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for admission, and give the place on when the block ends."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self.in_flight < self.limit and not self._queue:
            self.in_flight += 1
            return
        ticket = asyncio.get_running_loop().create_future()
        self._queue.append(ticket)
        try:
            await ticket  # whoever leaves hands the place over: it is counted already
        except asyncio.CancelledError:
            # A cancelled ticket stays in the queue and is dropped when its turn comes.
            if not ticket.cancelled():
                self._leave()  # cancelled between the hand-over and waking up
            raise

    def _leave(self) -> None:
        self.in_flight -= 1
        while self._queue and self.in_flight < self.limit:
            ticket = self._queue.popleft()
            if not ticket.done():
                self.in_flight += 1
                ticket.set_result(None)


class EndpointLimits:
    """One `Limiter` per endpoint and key."""

    def __init__(self) -> None:
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def limiter(self, base_url: str, key: str, max_concurrent: int) -> Limiter:
        """Return the endpoint's limiter, bounded by the smallest value that was ever asked for."""
        # The digest stands in for the key, so that no second copy of a secret lies about.
        name = (base_url, text_digest(key))
        found = self._limiters.setdefault(name, Limiter(max_concurrent))
        found.limit = min(found.limit, max_concurrent)
        return found

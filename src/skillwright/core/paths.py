"""Places for work that is bounded, first come, first served; what nobody waits for gives way."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

AHEAD = "ahead"
"""The phase of an episode that was played before anybody knew whether it would be asked for, and
the purpose of what it cost for as long as nobody asks."""


class Ahead:
    """Work whose result may never be asked for, so that all other work goes first.

    Attributes:
        is_needed: Somebody waits for it now, and it is work like any other.
    """

    def __init__(self) -> None:
        self.is_needed = False


_ahead: ContextVar[Ahead | None] = ContextVar("ahead", default=None)


@contextmanager
def played_ahead(work: Ahead) -> Iterator[None]:
    """Let all that is begun inside, tasks too, give way for as long as nobody needs ``work``."""
    token = _ahead.set(work)
    try:
        yield
    finally:
        _ahead.reset(token)


def gives_way() -> bool:
    """Tell whether what runs here is played ahead, and not needed yet."""
    work = _ahead.get()
    return work is not None and not work.is_needed


class Places:
    """Lets in at most ``limit`` at a time, in the order in which they came.

    Whoever gives way is let in where nobody else waits; once in, it stays until it is done. For one
    event loop.

    Attributes:
        in_flight: How many are in.
    """

    def __init__(self, limit: int) -> None:
        self.in_flight = 0
        self._limit = limit
        self._queue: deque[asyncio.Future[None]] = deque()
        self._last: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """How many may be in, now."""
        return self._limit

    def enter_at_once(self) -> bool:
        """Take a place where one is free and nobody waits for it; end with `leave`."""
        if self.in_flight >= self.limit or self._queue or self._last:
            return False
        self.in_flight += 1
        return True

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place, and give the place on when the block ends."""
        await self._enter()
        try:
            yield
        finally:
            self.leave()

    async def _enter(self) -> None:
        if self.enter_at_once():
            return
        ticket = asyncio.get_running_loop().create_future()
        (self._last if gives_way() else self._queue).append(ticket)
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
        self._let_in()

    def _let_in(self) -> None:
        for queue in (self._queue, self._last):
            while queue and self.in_flight < self.limit:
                ticket = queue.popleft()
                if not ticket.done():
                    self.in_flight += 1
                    ticket.set_result(None)

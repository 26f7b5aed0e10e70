"""Workers in this process, to see the whole path without another process."""

import asyncio
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

from skillwright.plugins.ray.pool import WorkerLost, unsendable
from skillwright.plugins.ray.worker import EpisodeWorker, Shared


class WorkersHere:
    """A placement whose workers are tasks of this event loop; all that crosses is still pickled.

    Args:
        workers: How many.

    Attributes:
        started: Those that were ever started, in order; `WorkerHere.die` ends one.
        refuses: Raised by the next starts, in order.
        has_other_machines: Files are sent, as if there were any.
    """

    def __init__(self, workers: int, refuses: Iterable[Exception] = ()) -> None:
        self.workers = workers
        self.has_other_machines = False
        self.started: list[WorkerHere] = []
        self.refuses = list(refuses)
        self._shared: dict[int, bytes] = {}

    def share(self, value: Any) -> int:
        """Keep it as bytes."""
        try:
            body = pickle.dumps(value)
        except Exception as error:  # whatever a class of somebody else's does when it is pickled
            raise unsendable(error) from error
        self._shared[len(self._shared)] = body
        return len(self._shared) - 1

    async def start(self) -> "WorkerHere":
        """Start one, or raise what ``refuses`` says."""
        if self.refuses:
            raise self.refuses.pop(0)
        worker = WorkerHere(self._shared)
        self.started.append(worker)
        return worker


class WorkerHere:
    """A worker as tasks of this event loop.

    Attributes:
        batches: How many episodes each call of `hand` brought.
    """

    def __init__(self, shared: dict[int, bytes]) -> None:
        self.batches: list[int] = []
        self._shared = shared
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._worker = EpisodeWorker(self._fetch, linger_s=0)
        self._calls: set[asyncio.Task[None]] = set()

    async def _fetch(self, handle: int) -> Any:
        return pickle.loads(self._shared[handle])

    def hand(self, setting: Shared, orders: bytes) -> None:
        """Begin episodes, unless it is dead."""
        self.batches.append(len(pickle.loads(orders)))
        self._call(self._worker.hand(setting, orders))

    def stop(self, tickets: Sequence[int]) -> None:
        """Stop episodes."""
        self._call(self._worker.stop(tickets))

    def _call(self, work: Any) -> None:
        call = asyncio.create_task(work)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def collect(self) -> bytes:
        """Wait for its next report, or its death."""
        report = asyncio.create_task(self._worker.collect())
        ends: set[asyncio.Future[Any]] = {report, self._dead}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not report.done():
                report.cancel()
        if self._dead.done():
            self._dead.result()
        return report.result()

    def die(self, why: str = "killed") -> None:
        """Lose it, with all that it has not reported."""
        if not self._dead.done():
            self._dead.set_exception(WorkerLost(why))
            self._call(self._worker.close())

    def dismiss(self) -> None:
        """End it."""
        if not self._dead.done():
            self._dead.set_result(None)
            self._call(self._worker.close())

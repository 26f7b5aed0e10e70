"""An event loop in a private thread, for blocking callers."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Serving(NamedTuple):
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


class LoopThread:
    """Runs coroutines for blocking callers, inside a running loop or not.

    All run in one loop in one private thread, so calls can share semaphores and connections. The
    thread starts with the first call; `close`, the last reference to this object, or the end of the
    process cancels what runs and ends it.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._serving: _Serving | None = None
        self._end: Callable[[], object] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; Ctrl-C in the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._started().loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel running coroutines and end the thread. Closing twice is allowed."""
        with self._guard:
            if self._end is not None:
                self._end()
            self._serving = self._end = None

    def _started(self) -> _Serving:
        with self._guard:
            if self._serving is None:
                ready: Future[_Serving] = Future()
                thread = threading.Thread(
                    target=lambda: asyncio.run(_serve(ready)), name="skillwright-loop", daemon=True
                )
                thread.start()
                self._serving = ready.result()
                self._end = weakref.finalize(self, _end, self._serving, thread)
            return self._serving


async def _serve(ready: "Future[_Serving]") -> None:
    stop = asyncio.Event()
    ready.set_result(_Serving(asyncio.get_running_loop(), stop))
    # On return, asyncio.run cancels the other tasks, waits for them, and closes the loop.
    await stop.wait()


def _end(serving: _Serving, thread: threading.Thread) -> None:
    serving.loop.call_soon_threadsafe(serving.stop.set)
    # The garbage collector may drop the last reference in any thread, including this one.
    if thread is not threading.current_thread():
        thread.join()

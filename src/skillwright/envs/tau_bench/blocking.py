"""Waits for a coroutine from a thread that has no event loop, or whose loop must not be blocked.

One loop in one daemon thread serves the whole process, so that connections are shared between
the episodes of a trainer's thread pool.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_CLOSING_S: Final = 2.0

_lock = threading.Lock()
# By process: a fork copies the loop, but not the thread that runs it.
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the shared loop and return its result.

    An interrupt of the caller (Ctrl-C) cancels the coroutine.
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, _shared_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _shared_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="tau_bench users", daemon=True).start()
            atexit.register(_close, loop, os.getpid())
        return loop


def _close(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Let what was opened on the loop be closed, connections above all, before the process ends."""
    if pid != os.getpid():
        return
    closing = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
    try:
        closing.result(_CLOSING_S)
    except TimeoutError:
        closing.cancel()

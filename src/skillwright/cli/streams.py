"""Redirect the output of third-party code to standard error, and handle stop signals.

An adapter or an environment that prints would otherwise corrupt the output of ``--json``.
"""

import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import Any, TextIO

_OUTPUT, _ERRORS = 1, 2

_ours: list[TextIO] = []


class OwnOutput:
    """A stream that writes to the original standard output, even if ``sys.stdout`` is replaced."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_ours[0] if _ours else sys.stdout, name)


@contextmanager
def others_to_stderr() -> Iterator[None]:
    """Redirect output to standard error while the block runs, except that of `OwnOutput`."""
    if _ours:
        yield
        return
    _ours.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _ours.clear()


def keep_output_to_ourselves() -> None:
    """Redirect the output of child processes to standard error, permanently."""
    own = sys.stdout
    if not isinstance(own, io.TextIOWrapper) or own.fileno() != _OUTPUT:
        return
    own.flush()
    kept = os.fdopen(
        os.dup(_OUTPUT),
        "w",
        encoding=own.encoding,
        errors=own.errors,
        buffering=1 if own.line_buffering else -1,
    )
    os.dup2(_ERRORS, _OUTPUT)
    sys.stdout = kept


# SIGTERM stops a process in the same way as Ctrl-C. This module imports little, because it runs
# before all other imports.


_FIRST_S, _AGAIN_S = 9.0, 1.0
_SPEAKS_S = 0.5
_SHOW_CURSOR = b"\x1b[?25h"

_ended_by: list[int] = []
_guarded: list[Callable[[], None]] = []


def listen() -> None:
    """Treat SIGTERM like Ctrl-C, so that a run prints how to resume it."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C. It is blocked as well (until
        # multiprocessing.resource_tracker unblocks it), and a handler is installed, because asyncio
        # only then cancels its tasks in order.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    if sys.platform != "win32":
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        # Written by the C handler, also while the main thread runs no Python code.
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        # A copy of this process has its own signals, and would write of them here.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        threading.Thread(target=_end_in_time, args=(reading,), name="stop", daemon=True).start()


@contextmanager
def ending_in_time(last_words: Callable[[], None]) -> Iterator[None]:
    """End this process within 10 s of a Ctrl-C or SIGTERM here, and a second after the next one.

    Something may not heed it, such as a library's long computation or a thread that waits. What
    is finished is stored, so nothing is lost.

    Args:
        last_words: Says, before the process is ended, how to continue.
    """
    _guarded.append(last_words)
    try:
        yield
    except KeyboardInterrupt:
        _guarded.append(last_words)  # for what the interpreter waits for at its end
        raise
    finally:
        _guarded.remove(last_words)


def _end_in_time(signals: int) -> None:
    """Read the numbers of signals; the first one that stops this process sets its end."""
    first, ends_at, last_words = 0, float("inf"), _nothing
    while True:
        left_s = max(ends_at - time.monotonic(), 0.0) if first else None
        if not select.select([signals], [], [], left_s)[0]:
            break
        for number in os.read(signals, 64):
            if number in (signal.SIGINT, signal.SIGTERM) and (first or _guarded):
                last_words = _guarded[-1] if _guarded else last_words
                ends_at = min(ends_at, time.monotonic() + (_AGAIN_S if first else _FIRST_S))
                first = first or number
    # In a thread, because the main one may hold what printing needs.
    speaker = threading.Thread(target=last_words, daemon=True)
    speaker.start()
    speaker.join(_SPEAKS_S)
    with suppress(OSError):
        if os.isatty(_ERRORS):
            os.write(_ERRORS, _SHOW_CURSOR)
    os._exit(128 + first)


def _nothing() -> None:
    """Print nothing."""


def stop_code() -> int:
    """Return the exit code of a stopped process: 128 plus the signal's number."""
    return 128 + (_ended_by or [signal.SIGINT])[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ended_by.append(number)
    # Call the handler directly, because the signal may be blocked.
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

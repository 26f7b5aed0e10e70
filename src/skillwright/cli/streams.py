"""Standard output is ours: what the code of others prints goes to standard error.

An adapter or an environment that prints would else spoil ``--json``.
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
    """A stream that writes to standard output, whatever becomes of ``sys.stdout`` meanwhile."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_ours[0] if _ours else sys.stdout, name)


@contextmanager
def others_to_stderr() -> Iterator[None]:
    """Let what is printed meanwhile go to standard error, but for what `OwnOutput` writes."""
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
    """Let what children of this process print go to standard error too, from now on."""
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


# How a process is stopped from outside: by Ctrl-C, or by SIGTERM, which ends it the same way.
#
# Light on purpose: it is there before anything else is imported.


_FIRST_S, _AGAIN_S = 9.0, 1.0
_SPEAKS_S = 0.5
_SHOW_CURSOR = b"\x1b[?25h"

_ended_by: list[int] = []
_guarded: list[Callable[[], None]] = []


def listen() -> None:
    """Take SIGTERM for a Ctrl-C from now on, so that a run says how to continue with it."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A background job of a shell, which Ctrl-C is not meant for. What is blocked does not reach
        # it either (until multiprocessing.resource_tracker lifts the block), and asyncio ends its
        # tasks in order only where there is a handler to replace.
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
    """Say nothing."""


def stop_code() -> int:
    """Return the exit code of a process that was stopped: 128 and the signal's number."""
    return 128 + (_ended_by or [signal.SIGINT])[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ended_by.append(number)
    # By itself, and not as a signal, which may be blocked.
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

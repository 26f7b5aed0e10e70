"""Redirect the output of third-party code to standard error, and handle stop signals.

An adapter or an environment that prints would otherwise corrupt the output of ``--json``.
"""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
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


_ended_by: list[int] = []


def listen() -> None:
    """Treat SIGTERM like Ctrl-C, so that a run prints how to resume it."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores Ctrl-C. It is blocked as well (until
        # multiprocessing.resource_tracker unblocks it), and a handler is installed, because asyncio
        # only then cancels its tasks in order.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def stop_code() -> int:
    """Return the exit code of a stopped process: 128 plus the signal's number."""
    return 128 + (_ended_by or [signal.SIGINT])[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ended_by.append(number)
    # Call the handler directly, because the signal may be blocked.
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

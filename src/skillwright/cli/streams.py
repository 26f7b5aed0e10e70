"""Standard output is ours: what the code of others prints goes to standard error.

An adapter or an environment that prints would else spoil ``--json``.
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


_ended_by: list[int] = []


def listen() -> None:
    """Take SIGTERM for a Ctrl-C from now on, so that a run says how to continue with it."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A background job of a shell, which Ctrl-C is not meant for. What is blocked does not reach
        # it either (until multiprocessing.resource_tracker lifts the block), and asyncio ends its
        # tasks in order only where there is a handler to replace.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def stop_code() -> int:
    """Return the exit code of a process that was stopped: 128 and the signal's number."""
    return 128 + (_ended_by or [signal.SIGINT])[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ended_by.append(number)
    # By itself, and not as a signal, which may be blocked.
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

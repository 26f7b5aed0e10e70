"""How a process is stopped from outside: by Ctrl-C, or by SIGTERM, which ends it the same way.

Light on purpose: it is there before anything else is imported.
"""

import signal
import sys
from types import FrameType

_ended_by: list[int] = []


def listen() -> None:
    """Take SIGTERM for a Ctrl-C from now on, so that a run says how to continue with it."""
    if sys.platform != "win32" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A background job of a shell, which Ctrl-C is not meant for. What is blocked does not reach
        # it either (until somebody's multiprocessing.resource_tracker lifts the block), and asyncio
        # ends its tasks in order only where there is a handler to replace.
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

"""How a process is stopped from outside: by Ctrl-C, or by SIGTERM, which ends it the same way.

Light on purpose: it is there before anything else is imported.
"""

import signal
from types import FrameType

_ended_by: list[int] = []


def listen() -> None:
    """Take SIGTERM for a Ctrl-C from now on, so that a run says how to go on with it."""
    signal.signal(signal.SIGTERM, _interrupt)


def stop_code() -> int:
    """Return the exit code of a process that was stopped: 128 and the signal's number."""
    return 128 + (_ended_by or [signal.SIGINT])[0]


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    _ended_by.append(number)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)

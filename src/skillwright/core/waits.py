"""Long waits that are no event of a run, for display on the command line."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A wait in progress.

    Attributes:
        what: The operation: ``loading torch``.
        then: What happens next, or "".
        since_s: Start, by `time.monotonic`.
    """

    what: str
    then: str
    since_s: float


_waits: list[Wait] = []


@contextmanager
def waiting(what: str, then: str = "") -> Iterator[None]:
    """Report a wait while the block runs."""
    one = Wait(what, then, time.monotonic())
    _waits.append(one)
    try:
        yield
    finally:
        _waits.remove(one)


def waits() -> tuple[Wait, ...]:
    """Return the current waits of all threads, the oldest first."""
    return tuple(_waits)

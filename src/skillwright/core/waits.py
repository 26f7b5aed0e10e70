"""Long waits that are no event of a run, for display on the command line."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Wait:
    """A wait in progress.

    Attributes:
        what: The operation: ``loading torch``.
        then: What happens next, or "".
        since_s: Start, by `time.monotonic`.
        share: The finished share, from 0 to 1; ``None`` if unknown.
    """

    what: str
    then: str
    since_s: float
    share: float | None = None


_waits: list[Wait] = []


@contextmanager
def waiting(what: str, then: str = "") -> Iterator[Wait]:
    """Report a wait while the block runs."""
    one = Wait(what, then, time.monotonic())
    _waits.append(one)
    try:
        yield one
    finally:
        _waits.remove(one)


def waits() -> tuple[Wait, ...]:
    """Return the current waits of all threads, the oldest first."""
    return tuple(_waits)

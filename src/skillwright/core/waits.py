"""Long waits that are no event of a run: the code that waits reports them here.

Nothing depends on it; the command line looks at `waits` and shows what lasts.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Something that is being waited for.

    Attributes:
        what: What is done meanwhile, or who is asked: ``loading torch``.
        then: What happens next, or "".
    """

    what: str
    then: str
    since_s: float


_waits: list[Wait] = []


@contextmanager
def waiting(what: str, then: str = "") -> Iterator[None]:
    """Say for as long as it lasts that something is waited for."""
    one = Wait(what, then, time.monotonic())
    _waits.append(one)
    try:
        yield
    finally:
        _waits.remove(one)


def waits() -> tuple[Wait, ...]:
    """Return what is waited for just now, by any thread, the longest wait first."""
    return tuple(_waits)

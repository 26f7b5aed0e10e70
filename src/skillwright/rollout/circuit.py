"""Stop a run when too many episodes fail in a row, or too large a share of the latest.

Episodes count in the order in which they started: slow ones and those that hit a deadline end last.
"""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import count

from skillwright.core import EpisodeResult, Failure
from skillwright.rollout.engine import EngineDown

WINDOW = 40
"""Number of latest episodes of which the share of failures is taken."""
LEAST_EPISODES = 20
"""Minimum number of episodes for a share."""


class Circuit:
    """Counts failed episodes; a reward resets the count of consecutive failures.

    Episodes that start together count as one event.
    """

    def __init__(self, give_up_after: int | None, max_failure_share: float | None = None) -> None:
        self._give_up_after = give_up_after
        self._max_share = max_failure_share
        self._row: deque[Failure] = deque(maxlen=give_up_after)
        self._latest: deque[Failure | None] = deque(maxlen=WINDOW)
        self._tickets = count()
        self._next = 0
        self._waiting: dict[int, tuple[Failure | None, ...]] = {}

    def begin(self) -> int:
        """Return the number of an episode, or a wave of episodes, that starts."""
        return next(self._tickets)

    def withdraw(self, ticket: int) -> None:
        """Stop waiting for an outcome that will never be reported."""
        self._waiting[ticket] = ()

    def note(self, ticket: int, results: Sequence[EpisodeResult]) -> None:
        """Count what ended, and later events that waited for it."""
        self._waiting[ticket] = tuple(result.failure for result in results)
        while self._next in self._waiting:
            outcomes = self._waiting.pop(self._next)
            self._next += 1
            if outcomes:
                self._count(outcomes)

    def _count(self, outcomes: Sequence[Failure | None]) -> None:
        self._latest.extend(outcomes)
        if None in outcomes:
            self._row.clear()
        elif self._give_up_after is not None:
            self._row.extend(failure for failure in outcomes if failure is not None)
        if self._row and len(self._row) == self._give_up_after:
            raise _down(f"the last {len(self._row)} episodes all failed", self._row)
        failures = [failure for failure in self._latest if failure is not None]
        seen = len(self._latest)
        if self._max_share is None or seen < LEAST_EPISODES:
            return
        if len(failures) > self._max_share * seen:
            raise _down(
                f"{len(failures)} of the last {seen} episodes failed, and at most "
                f"{self._max_share:.0%} may (rollout.max_failure_share)",
                failures,
            )


def _down(said: str, failures: Sequence[Failure]) -> EngineDown:
    causes = Counter(failure.cause for failure in failures)
    cause, times = causes.most_common(1)[0]
    latest = next(one.message for one in reversed(failures) if one.cause is cause)
    return EngineDown(
        f"{said}, {times} of them with cause {cause.value!r}; the latest of these: "
        f"{latest.rstrip('.')}. Nothing was scored as zero. Mend it and resume: what was finished "
        "is not played again."
    )

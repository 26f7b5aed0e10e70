"""Notices that nothing works any more, so that a dead endpoint stops a run."""

from collections import Counter, deque

from skillwright.core import EpisodeResult, Failure
from skillwright.rollout.engine import EngineDown


class Circuit:
    """Counts failed episodes in a row; one that has a reward starts the count again.

    Args:
        give_up_after: Failures in a row that are one too many; ``None`` never gives up.
    """

    def __init__(self, give_up_after: int | None) -> None:
        self._give_up_after = give_up_after
        self._failures: deque[Failure] = deque(maxlen=give_up_after)

    def note(self, result: EpisodeResult) -> None:
        """Count a finished episode."""
        if result.failure is None:
            self._failures.clear()
        elif self._give_up_after is not None:
            self._failures.append(result.failure)

    def check(self) -> None:
        """Ask whether to go on.

        Raises:
            EngineDown: It was one failure too many; the message says what failed most.
        """
        if not self._failures or len(self._failures) != self._give_up_after:
            return
        causes = Counter(failure.cause for failure in self._failures)
        cause, times = causes.most_common(1)[0]
        latest = next(f.message for f in reversed(self._failures) if f.cause is cause)
        raise EngineDown(
            f"the last {len(self._failures)} episodes all failed, {times} of them with cause "
            f"{cause.value!r}; the latest of these: {latest.rstrip('.')}. Nothing was scored as "
            "zero. Mend it and resume: what was finished is not played again."
        )

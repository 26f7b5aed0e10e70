"""Two artefacts, compared on the same tasks with the same luck."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from skillwright.core.result import EpisodeResult


@dataclass(frozen=True, slots=True)
class Pair:
    """One draw of a task by both sides, under one seed."""

    incumbent: EpisodeResult
    candidate: EpisodeResult

    @property
    def task_id(self) -> str:
        """The task that both attempted."""
        return self.candidate.task_id

    @property
    def gain(self) -> float | None:
        """Candidate minus incumbent, or ``None`` where a side has a Failure."""
        if self.candidate.reward is None or self.incumbent.reward is None:
            return None
        return self.candidate.reward - self.incumbent.reward


class Duel(Protocol):
    """Draws paired results on demand; a gate decides how many it needs."""

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks that may be drawn, in a fixed order."""

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``.

        A task's draws are numbered; drawing it again gives fresh ones, never a stored one twice.
        """

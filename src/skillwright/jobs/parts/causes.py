"""Why episodes did not succeed: the most frequent causes of a run, each with an episode to read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from skillwright.core import StopReason
from skillwright.runs import EpisodeSummary

MOST_CAUSES: Final = 3
_ENDINGS: Final = {
    StopReason.DONE: "ended without success",
    StopReason.MAX_TURNS: "turn limit",
    StopReason.TIMEOUT: "time limit",
    StopReason.CONTEXT: "context full",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Episodes of one task type that ended alike, without success.

    Attributes:
        task_type: The tasks' type, or "".
        ending: How they ended: a fault's cause, a limit, or the environment.
        count: How many did.
        episode: One of them, as ``runs view`` names it.
    """

    task_type: str
    ending: str
    count: int
    episode: str

    @property
    def line(self) -> str:
        """Say it to people."""
        about = f"{self.task_type.replace('_', ' ')}: " if self.task_type else ""
        return f"{about}{self.ending}, {self.count} (such as {self.episode})"


def top_causes(
    episodes: Iterable[EpisodeSummary],
    threshold: float,
    is_meant: Callable[[EpisodeSummary], bool] = lambda one: True,
) -> list[Cause]:
    """Group the episodes that did not succeed by task type and ending, the most frequent first.

    Args:
        episodes: Of a run, in order; of several attempts at one and the same the last counts.
        threshold: The score from which an episode is a success.
        is_meant: Which of them are looked at.
    """
    latest = {one.key: one for one in episodes if is_meant(one)}
    groups: dict[tuple[str, str], list[EpisodeSummary]] = {}
    for one in latest.values():
        score = one.reward if one.hard is None else one.hard
        if score is None or score < threshold:
            groups.setdefault((one.task_type, _ending(one)), []).append(one)
    causes = [
        Cause(task_type, ending, len(found), f"e{found[0].id}")
        for (task_type, ending), found in groups.items()
    ]
    return sorted(causes, key=lambda cause: (-cause.count, cause.task_type))[:MOST_CAUSES]


def _ending(one: EpisodeSummary) -> str:
    if one.failure is not None:
        return f"failed ({one.failure.cause.value.replace('_', ' ')})"
    return _ENDINGS.get(one.stop_reason, one.stop_reason.value.replace("_", " "))

"""How a bank does by category, and which of its failures a teacher is shown.

Source: SkillRL (arXiv 2602.08234), requirements R12 and R13. Its released code took the first ten
rows of a batch, whatever they were, and evolved on the pool that it reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillwright.bank.teaching.transcripts import Evidence, round_robin
from skillwright.core import DataError, EpisodeResult, StopReason, did_you_mean
from skillwright.datasets import EvolutionTasks


@dataclass(frozen=True, slots=True)
class EvolutionResults:
    """Episodes of an evolution split, and of no other: what is reported may not be studied.

    Attributes:
        split: The evolution split.
        results: Finished attempts at its tasks.

    Raises:
        DataError: An episode is of a task outside of the split.
    """

    split: EvolutionTasks
    results: tuple[EpisodeResult, ...]

    def __post_init__(self) -> None:
        known = set(self.split.ids)
        for result in self.results:
            if result.task_id not in known:
                raise DataError(
                    f"task {result.task_id!r} is outside of the evolution split; a bank that "
                    "learns from the tasks it is judged by proves nothing. "
                    f"{did_you_mean(result.task_id, known)}"
                )


@dataclass(frozen=True, slots=True)
class CategorySuccess:
    """How one category does.

    Attributes:
        category: Its name, "" where tasks have none.
        wins: Scored episodes that were won.
        episodes: Scored episodes.
    """

    category: str
    wins: int
    episodes: int

    @property
    def accuracy(self) -> float:
        """The share that was won, in [0, 1]."""
        return self.wins / self.episodes


def success_by_category(evidence: Sequence[Evidence]) -> tuple[CategorySuccess, ...]:
    """Count wins by category, in the order of their names."""
    names = sorted({one.category for one in evidence})
    return tuple(
        CategorySuccess(
            name,
            sum(one.succeeded for one in evidence if one.category == name),
            sum(one.category == name for one in evidence),
        )
        for name in names
    )


def weakest_of(success: Sequence[CategorySuccess]) -> str | None:
    """Return the category with the lowest accuracy, the first by name among equals."""
    if not success:
        return None
    return min(success, key=lambda one: (one.accuracy, one.category)).category


def budgets(
    success: Sequence[CategorySuccess], failures: Mapping[str, int], most: int
) -> dict[str, int]:
    """Divide the failures that are shown among categories, in proportion to 1 - accuracy.

    Seats are given one by one to the category that has the fewest for its weight (Sainte-Laguë),
    and no category gets more than it has failures.

    Args:
        success: The categories that may be shown.
        failures: How many failures each has.
        most: Failures that are shown in all.
    """
    seats = {one.category: 0 for one in success}
    weights = {one.category: 1 - one.accuracy for one in success}
    for _ in range(most):
        open_ones = [
            name for name in seats if seats[name] < failures.get(name, 0) and weights[name] > 0
        ]
        if not open_ones:
            break
        best = max(open_ones, key=lambda name: weights[name] / (2 * seats[name] + 1))
        seats[best] += 1
    return seats


def sample_failures(
    evidence: Sequence[Evidence], success: Sequence[CategorySuccess], most: int
) -> list[Evidence]:
    """Choose the failures that a teacher is shown, wherever they stand among the episodes.

    Args:
        evidence: Every episode.
        success: The categories whose failures may be shown.
        most: Failures that are shown in all.

    Returns:
        Of each category the severest, the categories by turns, the weakest first. The order of
        ``evidence`` makes no difference.
    """
    failed = {
        one.category: by_severity(
            [e for e in evidence if e.category == one.category and not e.succeeded]
        )
        for one in success
    }
    seats = budgets(success, {name: len(group) for name, group in failed.items()}, most)
    order = sorted(success, key=lambda one: (one.accuracy, one.category))
    return round_robin((failed[o.category][: seats[o.category]] for o in order), most)


def by_severity(failures: Sequence[Evidence]) -> list[Evidence]:
    """Order failures: tasks not shown yet first, then less reward, then lost before cut off.

    Further attempts at a task come after the first of every other, because they teach the same.
    """
    ordered = sorted(failures, key=_severity)
    met: dict[str, int] = {}
    rounds = []
    for one in ordered:
        rounds.append(met.get(one.transcript.task_id, 0))
        met[one.transcript.task_id] = rounds[-1] + 1
    return [one for _, one in sorted(zip(rounds, ordered, strict=True), key=lambda pair: pair[0])]


def _severity(one: Evidence) -> tuple[float, bool, int, str]:
    told = one.transcript
    was_cut_off = told.stop == StopReason.MAX_TURNS.value
    return told.reward, was_cut_off, -told.turns, one.id

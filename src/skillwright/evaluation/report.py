"""What a split says about one or several artefacts, as values; the command line renders them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from skillwright.core import EpisodeResult, Pair
from skillwright.evaluation.paired import PairedEffect, measure_effect
from skillwright.evaluation.score import Score


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """One artefact's score, overall and by task family.

    Attributes:
        overall: The score of all episodes.
        families: The score of each family, sorted by name; empty where tasks name no family.
    """

    overall: Score
    families: Mapping[str, Score] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Sequence[EpisodeResult], success_threshold: float = 1.0) -> Self:
        """Score episodes; see `Score.of`."""
        groups: defaultdict[str, list[EpisodeResult]] = defaultdict(list)
        for result in results:
            if result.task_type:
                groups[result.task_type].append(result)
        return cls(
            overall=Score.of(results, success_threshold),
            families={
                name: Score.of(group, success_threshold) for name, group in sorted(groups.items())
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"overall", "families"}`` as a JSON object."""
        return {
            "overall": self.overall.to_dict(),
            "families": {name: score.to_dict() for name, score in self.families.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            overall=Score.from_dict(data["overall"]),
            families={name: Score.from_dict(score) for name, score in data["families"].items()},
        )


@dataclass(frozen=True, slots=True)
class SplitReport:
    """Artefacts scored side by side on one split.

    Attributes:
        split: ``val`` or ``test``.
        success_threshold: The reward from which an episode is a success.
        tables: A table per artefact, in the order given; the first is the baseline.
        gains: What each other artefact gains over the baseline in mean reward, on the pairs of
            equal task and draw.
    """

    split: str
    success_threshold: float
    tables: Mapping[str, ScoreTable]
    gains: Mapping[str, PairedEffect]

    @classmethod
    def of(
        cls,
        split: str,
        results: Mapping[str, Sequence[EpisodeResult]],
        success_threshold: float = 1.0,
    ) -> Self:
        """Score each artefact's episodes, and pair them with those of the first.

        Args:
            split: The split's name.
            results: Episodes per artefact; the first artefact is the baseline.
            success_threshold: See `Score.of`.
        """
        names = list(results)
        return cls(
            split=split,
            success_threshold=success_threshold,
            tables={
                name: ScoreTable.of(episodes, success_threshold)
                for name, episodes in results.items()
            },
            gains={
                name: measure_effect(_pairs(results[names[0]], results[name])) for name in names[1:]
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "split": self.split,
            "success_threshold": self.success_threshold,
            "tables": {name: table.to_dict() for name, table in self.tables.items()},
            "gains": {name: gain.to_dict() for name, gain in self.gains.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            split=data["split"],
            success_threshold=data["success_threshold"],
            tables={name: ScoreTable.from_dict(row) for name, row in data["tables"].items()},
            gains={name: PairedEffect.from_dict(row) for name, row in data["gains"].items()},
        )


def _pairs(baseline: Sequence[EpisodeResult], other: Sequence[EpisodeResult]) -> list[Pair]:
    """Pair episodes of equal task and draw; an episode without a partner is in no pair."""
    partners = {(result.task_id, result.spec.draw): result for result in baseline}
    return [
        Pair(incumbent=partners[key], candidate=result)
        for result in other
        if (key := (result.task_id, result.spec.draw)) in partners
    ]

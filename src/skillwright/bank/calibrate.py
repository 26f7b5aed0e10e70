"""Where an embedder's scores part what belongs together from what does not.

Cosine scales differ between encoders: 0.4 is much for one and little for another. Pairs of a task
and a skill whose categories are known, equal or not, show what a threshold lets through.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.cache import Encoder
from skillwright.bank.embedding.embedder import Embedder
from skillwright.bank.seeds import seed_bank
from skillwright.bank.source import category_of, query_of
from skillwright.bank.teaching.transcripts import TaskName
from skillwright.core import DataError, SkillKind, Task

STEP: Final = 0.02
"""Between two thresholds of a report."""

MOST_UNSERVED: Final = 0.1
"""Share of the tasks with skills of their category that may be told none of these."""

QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """How scores are distributed.

    Attributes:
        count: How many.
        quantiles: Their values at `QUANTILES`.
    """

    count: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AtDelta:
    """What a threshold lets through.

    Attributes:
        delta: The threshold; strictly above it passes.
        precision: Of the pairs that pass, the share that matches; ``None`` where none passes.
        recall: Of the pairs that match, the share that passes.
        nothing: Share of the tasks with a matching skill for which none of these passes.
    """

    delta: float
    precision: float | None
    recall: float
    nothing: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where nothing passes."""
        if not self.precision or not self.recall:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What an embedder's scores are worth.

    Attributes:
        embedder: Its identity.
        matching: Scores of tasks and skills of the same category.
        other: Scores of tasks and skills of different categories.
        separation: Chance that a matching pair scores higher than one that is not (ROC area).
        curve: Precision and recall by threshold, from the lowest up.
        default: The same at the embedder's own delta.
        suggested: The same at the highest threshold at which at most `MOST_UNSERVED` of the tasks
            are told nothing of their own: the category's rule keeps the others out, so that the
            threshold only has to drop what is far from the task.
        best_f1: The same at the threshold with the best F1, for a search across categories.
    """

    embedder: str
    matching: Spread
    other: Spread
    separation: float
    curve: tuple[AtDelta, ...]
    default: AtDelta
    suggested: AtDelta
    best_f1: AtDelta


def seed_pairs(tasks_each: int = 120) -> list[tuple[Bank, Sequence[Task]]]:
    """Return the seed banks, each with training tasks of its environment: what defaults rest on.

    Args:
        tasks_each: Most tasks of an environment.
    """
    from skillwright.envs.alfworld import generated_tasks
    from skillwright.envs.tau_bench import retail_tasks
    from skillwright.envs.webshop import webshop_tasks

    return [
        (seed_bank("alfworld"), generated_tasks("train", tasks_each)),
        (seed_bank("tau_bench"), retail_tasks("train", count=tasks_each)),
        (seed_bank("webshop"), webshop_tasks("train", tasks_each)),
    ]


def calibrate(
    embedder: Embedder,
    banks: Iterable[tuple[Bank, Sequence[Task]]],
    *,
    categorise: TaskName = category_of,
    query: Callable[[Task, str], str] = query_of,
) -> Calibration:
    """Score every task against every task-specific skill and lesson that has a category.

    Tasks that ask for the same in the same words count once.

    Args:
        embedder: Whose scores are looked at.
        banks: Banks, each with tasks of its environment.
        categorise: The category of a task; those without one are left out.
        query: What a bank is searched with for a task of a category.

    Raises:
        DataError: There is no matching pair, or none that does not match.
    """
    encoder = Encoder(embedder)
    tables = []
    for bank, tasks in banks:
        skills = [skill for skill in bank.active if skill.kind != SkillKind.GENERAL]
        skills = [skill for skill in skills if skill.category]
        known = [(task, categorise(task)) for task in tasks]
        kinds = {(query(task, category), category): None for task, category in known if category}
        if not skills or not kinds:
            continue
        vectors = encoder.queries(text for text, _ in kinds)
        scores = np.stack([vectors[text] for text, _ in kinds]) @ encoder.skills(skills).T
        matches = np.array([[one.category == category for one in skills] for _, category in kinds])
        tables.append((scores, matches))
    return _report(embedder, tables)


_NONE: Final = np.zeros(0, dtype=np.float32)

Table = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]


def _report(embedder: Embedder, tables: list[Table]) -> Calibration:
    matching = np.concatenate([scores[matches] for scores, matches in tables] or [_NONE])
    other = np.concatenate([scores[~matches] for scores, matches in tables] or [_NONE])
    if not matching.size or not other.size:
        raise DataError(
            f"{matching.size} pairs of a task and a skill match and {other.size} do not; "
            "calibrating needs both: give skills and tasks of at least two categories"
        )
    highest = max(float(matching.max()), float(other.max()))
    lowest = min(float(matching.min()), float(other.min()), 0.0)
    steps = np.arange(np.ceil(lowest / STEP) - 1, np.ceil(highest / STEP) + 1) * STEP
    curve = tuple(_at(round(float(delta), 4), matching, other, tables) for delta in steps)
    return Calibration(
        embedder=embedder.identity,
        matching=_spread(matching),
        other=_spread(other),
        separation=_separation(matching, other),
        curve=curve,
        default=_at(embedder.delta, matching, other, tables),
        suggested=max(
            (one for one in curve if one.nothing <= MOST_UNSERVED),
            key=lambda one: one.delta,
            default=curve[0],
        ),
        best_f1=max(curve, key=lambda one: (one.f1, -one.delta)),
    )


def _at(
    delta: float,
    matching: npt.NDArray[np.float32],
    other: npt.NDArray[np.float32],
    tables: list[Table],
) -> AtDelta:
    right, wrong = int((matching > delta).sum()), int((other > delta).sum())
    told = [_served(scores > delta, matches) for scores, matches in tables]
    return AtDelta(
        delta=delta,
        precision=right / (right + wrong) if right + wrong else None,
        recall=right / matching.size,
        nothing=1 - sum(map(sum, told)) / sum(map(len, told)),
    )


def _served(passes: npt.NDArray[np.bool_], matches: npt.NDArray[np.bool_]) -> list[bool]:
    """Tell of each task that has a matching skill whether one of these passes."""
    return [
        bool(np.any(row & own)) for row, own in zip(passes, matches, strict=True) if np.any(own)
    ]


def _spread(scores: npt.NDArray[np.float32]) -> Spread:
    values = np.quantile(scores.astype(np.float64), QUANTILES)
    return Spread(scores.size, tuple(round(float(value), 4) for value in values))


def _separation(matching: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    below = np.searchsorted(np.sort(other), matching, side="left")
    up_to = np.searchsorted(np.sort(other), matching, side="right")
    return float((below + up_to).mean() / 2 / other.size)

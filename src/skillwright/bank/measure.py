"""Measure a bank: its counts, its compression, and the quality of an embedder's scores.

Cosine scales differ between encoders. Pairs of a task and a skill with known categories show what a
threshold lets through.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.embedders import Embedder, Encoder
from skillwright.bank.formats.imports import SEED_BANKS, seed_bank
from skillwright.bank.render import CountTokens, approximate_tokens, skill_line
from skillwright.bank.source import category_of, query_of
from skillwright.bank.teaching.teacher import TaskName
from skillwright.core import DataError, Message, SkillKind, SkillStatus, Task, Trajectory
from skillwright.envs import spec


@dataclass(frozen=True, slots=True)
class BankCounts:
    """Counts of active skills.

    Attributes:
        by_category: (task-specific skills, lessons) by category, sorted; ``""`` for all categories.
        retired: Retired skills.
        pending: Pending skills.
    """

    general: int
    task_specific: int
    lessons: int
    by_category: Mapping[str, tuple[int, int]]
    retired: int
    pending: int

    @property
    def total(self) -> int:
        """All active skills."""
        return self.general + self.task_specific + self.lessons

    @property
    def headline(self) -> str:
        """The counts as in SkillRL (lessons count as task-specific), then the split."""
        return (
            f"{self.general} + {self.task_specific + self.lessons} = {self.total} "
            f"({self.general} general, {self.task_specific} task-specific, {self.lessons} lessons)"
        )


def count_skills(bank: Bank) -> BankCounts:
    """Count the skills of a bank by kind and category."""
    kinds = Counter(skill.kind for skill in bank.active)
    pairs = Counter((skill.category, skill.kind) for skill in bank.active)
    categories = sorted({category for category, kind in pairs if kind != SkillKind.GENERAL})
    statuses = Counter(skill.status for skill in bank.skills)
    return BankCounts(
        general=kinds[SkillKind.GENERAL],
        task_specific=kinds[SkillKind.TASK_SPECIFIC],
        lessons=kinds[SkillKind.LESSON],
        by_category={
            one: (pairs[one, SkillKind.TASK_SPECIFIC], pairs[one, SkillKind.LESSON])
            for one in categories
        },
        retired=statuses[SkillStatus.RETIRED],
        pending=statuses[SkillStatus.PENDING],
    )


def active_by_category(bank: Bank) -> dict[str, int]:
    """Count active skills by category, lessons included; ``""`` is for all categories."""
    return dict(sorted(Counter(skill.category for skill in bank.active).items()))


@dataclass(frozen=True, slots=True)
class Compression:
    """How much shorter skills are than their evidence, in tokens.

    Attributes:
        skills: Active skills with evidence among the trajectories.
        episodes: Trajectories that they were learned from.
        missing: Evidence episodes that are not among the trajectories.
        skill_tokens: Length of those skills as agents read them.
        raw_tokens: Length of those trajectories.
        summary_tokens: Length of their summaries.
        with_tokens: Length of the given prompts.
        without_tokens: Length of the prompts without the skills.
    """

    skills: int
    episodes: int
    missing: int
    skill_tokens: int
    raw_tokens: int
    summary_tokens: int
    with_tokens: int
    without_tokens: int

    @property
    def raw_ratio(self) -> float | None:
        """Trajectories over skills: SkillRL claims 10 to 20. ``None`` without evidence."""
        return self.raw_tokens / self.skill_tokens if self.skill_tokens else None

    @property
    def summary_ratio(self) -> float | None:
        """Summaries over skills; ``None`` without evidence."""
        return self.summary_tokens / self.skill_tokens if self.skill_tokens else None

    @property
    def prompt_ratio(self) -> float | None:
        """Prompts with skills over the same without; ``None`` without prompts."""
        return self.with_tokens / self.without_tokens if self.without_tokens else None


def raw_text(trajectory: Trajectory) -> str:
    """Return everything that an agent said and saw in an episode."""
    parts = [trajectory.opening]
    for turn in trajectory.turns:
        parts += [turn.act.written, turn.observation]
    return "\n".join(parts)


def acts_of(trajectory: Trajectory) -> str:
    """Summarize an episode without a model: its opening and the agent's actions."""
    return "\n".join([trajectory.opening, *(turn.act.written for turn in trajectory.turns)])


def compression(
    bank: Bank,
    trajectories: Mapping[str, Trajectory],
    prompts: Iterable[tuple[Sequence[Message], str]] = (),
    *,
    count: CountTokens = approximate_tokens,
    summarize: Callable[[Trajectory], str] = acts_of,
) -> Compression:
    """Measure how much shorter the skills of a bank are than their evidence.

    Args:
        bank: A bank whose skills name their episodes.
        trajectories: Trajectories by episode key.
        prompts: Prompts, each with the text of the skills in it.
        count: Returns the tokens of a text.
        summarize: Returns the summary of an episode.

    Source: SkillRL (arXiv 2602.08234), which compares with raw trajectories in the text and with
    memories in a figure.
    """
    named = {skill.id: set(skill.provenance.episodes) for skill in bank.active}
    learned = [skill for skill in bank.active if named[skill.id] & trajectories.keys()]
    episodes = sorted(set().union(*named.values()))
    known = [trajectories[key] for key in episodes if key in trajectories]
    shown = [("".join(one["content"] for one in messages), added) for messages, added in prompts]
    with_tokens = sum(count(text) for text, _ in shown)
    return Compression(
        skills=len(learned),
        episodes=len(known),
        missing=len(episodes) - len(known),
        skill_tokens=sum(count(skill_line(skill)) for skill in learned),
        raw_tokens=sum(count(raw_text(one)) for one in known),
        summary_tokens=sum(count(summarize(one)) for one in known),
        with_tokens=with_tokens,
        without_tokens=with_tokens - sum(count(added) for _, added in shown),
    )


STEP: Final = 0.02
"""Distance of the thresholds in a report."""

MOST_UNSERVED: Final = 0.1
"""Share of the tasks that may get no skill of their category."""

QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of scores.

    Attributes:
        quantiles: Values at `QUANTILES`.
    """

    count: int
    quantiles: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AtDelta:
    """Results at a threshold.

    Attributes:
        delta: The threshold; strictly greater scores pass.
        precision: Matching share of the passing pairs; ``None`` if none passes.
        recall: Passing share of the matching pairs.
        nothing: Share of the tasks with a matching skill for which none of these passes.
    """

    delta: float
    precision: float | None
    recall: float
    nothing: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if nothing passes."""
        if not self.precision or not self.recall:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The quality of an embedder's scores.

    Attributes:
        embedder: Its identity.
        matching: Scores of tasks and skills of the same category.
        other: Scores of tasks and skills of different categories.
        separation: Probability that a matching pair scores higher than another one (ROC area).
        curve: Results by threshold, ascending.
        default: Results at the embedder's own delta.
        suggested: Results at the highest threshold at which at most `MOST_UNSERVED` of the tasks
            get no skill of their category: the category filter already excludes other skills, so
            the threshold only has to drop unrelated ones.
        best_f1: Results at the threshold with the best F1, for a search across categories.
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
    """Return the seed banks with training tasks of their environments, as used for the defaults.

    Args:
        tasks_each: Most tasks of an environment.
    """
    return [(seed_bank(name), spec(name).load().sample_tasks(tasks_each)) for name in SEED_BANKS]


def calibrate(
    embedder: Embedder,
    banks: Iterable[tuple[Bank, Sequence[Task]]],
    *,
    categorize: TaskName = category_of,
    query: Callable[[Task, str], str] = query_of,
) -> Calibration:
    """Score every task against every task-specific skill and lesson that has a category.

    Tasks with equal queries count once.

    Args:
        embedder: The embedder to calibrate.
        banks: Banks, each with tasks of its environment.
        categorize: Returns the category of a task; tasks without one are skipped.
        query: Returns the query of a task and its category.

    Raises:
        DataError: There is no matching pair, or no other pair.
    """
    encoder = Encoder(embedder)
    tables = []
    for bank, tasks in banks:
        skills = [skill for skill in bank.active if skill.kind != SkillKind.GENERAL]
        skills = [skill for skill in skills if skill.category]
        known = [(task, categorize(task)) for task in tasks]
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
    served = [_served(scores > delta, matches) for scores, matches in tables]
    return AtDelta(
        delta=delta,
        precision=right / (right + wrong) if right + wrong else None,
        recall=right / matching.size,
        nothing=1 - sum(map(sum, served)) / sum(map(len, served)),
    )


def _served(passes: npt.NDArray[np.bool_], matches: npt.NDArray[np.bool_]) -> list[bool]:
    """Return for each task with a matching skill whether one of these passes."""
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

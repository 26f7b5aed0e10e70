"""Measures of a bank: its counts, its compression, and what an embedder's scores are worth.

Cosine scales differ between encoders: 0.4 is much for one and little for another. Pairs of a task
and a skill whose categories are known, equal or not, show what a threshold lets through.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.embedders import Embedder, Encoder
from skillwright.bank.formats.imports import seed_bank
from skillwright.bank.render import CountTokens, approximate_tokens, skill_line
from skillwright.bank.source import category_of, query_of
from skillwright.bank.teaching.teacher import TaskName
from skillwright.core import DataError, Message, SkillKind, SkillStatus, Task, Trajectory


@dataclass(frozen=True, slots=True)
class BankCounts:
    """How many active skills there are.

    Attributes:
        general: General skills.
        task_specific: Task-specific skills.
        lessons: Lessons.
        by_category: (task-specific skills, lessons) by category, sorted; ``""`` for every one.
        retired: Skills that were taken out.
        pending: Skills that have not been approved.
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
        """As SkillRL counts, lessons being task-specific, with the split beside it."""
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
    """Count the active skills of a bank by category, lessons included; ``""`` is every one."""
    return dict(sorted(Counter(skill.category for skill in bank.active).items()))


@dataclass(frozen=True, slots=True)
class Compression:
    """How much shorter skills are, in tokens as the given rule counts them.

    Attributes:
        skills: Active skills whose evidence is among the trajectories.
        episodes: Trajectories that these were learned from.
        missing: Episodes that are named as evidence and are not among the trajectories.
        skill_tokens: Length of those skills, written as agents read them.
        raw_tokens: Length of those trajectories, everything that was said and seen.
        summary_tokens: Length of their summaries.
        with_tokens: Length of the given prompts as they were shown.
        without_tokens: The same without the skills in them.
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
    """Write everything that an agent said and saw in an episode."""
    parts = [trajectory.opening]
    for turn in trajectory.turns:
        parts += [turn.act.written, turn.observation]
    return "\n".join(parts)


def acts_of(trajectory: Trajectory) -> str:
    """Summarize an episode without a model: how it opened, and what the agent did."""
    return "\n".join([trajectory.opening, *(turn.act.written for turn in trajectory.turns)])


def compression(
    bank: Bank,
    trajectories: Mapping[str, Trajectory],
    prompts: Iterable[tuple[Sequence[Message], str]] = (),
    *,
    count: CountTokens = approximate_tokens,
    summarize: Callable[[Trajectory], str] = acts_of,
) -> Compression:
    """Measure how much shorter the skills of a bank are than what they were learned from.

    Args:
        bank: The bank; its skills name their episodes.
        trajectories: What happened, by the key of the episode.
        prompts: Prompts that agents were shown, each with the text of the skills in it.
        count: Counts the tokens of a text.
        summarize: Writes the summary of an episode.

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
"""Between two thresholds of a report."""

MOST_UNSERVED: Final = 0.1
"""Share of the tasks with skills of their category that may get none of these."""

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
            get none of their own: the category's rule keeps the others out, so that the
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
    from skillwright.worlds.alfworld import generated_tasks
    from skillwright.worlds.tau_bench import tau_tasks
    from skillwright.worlds.webshop import webshop_tasks

    return [
        (seed_bank("alfworld"), generated_tasks("train", tasks_each)),
        (seed_bank("tau_bench"), tau_tasks("train", count=tasks_each)),
        (seed_bank("webshop"), webshop_tasks("train", tasks_each)),
    ]


def calibrate(
    embedder: Embedder,
    banks: Iterable[tuple[Bank, Sequence[Task]]],
    *,
    categorize: TaskName = category_of,
    query: Callable[[Task, str], str] = query_of,
) -> Calibration:
    """Score every task against every task-specific skill and lesson that has a category.

    Tasks that ask for the same in the same words count once.

    Args:
        embedder: Whose scores are looked at.
        banks: Banks, each with tasks of its environment.
        categorize: The category of a task; those without one are left out.
        query: What a bank is searched with for a task of a category.

    Raises:
        DataError: There is no matching pair, or none that does not match.
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

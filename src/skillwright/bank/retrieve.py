"""Retrieve the skills to inject for a task.

All general skills are injected, the most useful first; skills of the task's category that are
similar enough; and lessons from similar failures.

Source: SkillRL (arXiv 2602.08234), requirements R6-R8. Its released code had no threshold, cut the
general skills to K, and injected the first five lessons of the file for every task.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeInt

from skillwright.bank.bank import Bank, SkillStats
from skillwright.bank.embedding.embedders import Encoder, Vectors
from skillwright.core import BankSkill, SkillKind
from skillwright.core.settings import Settings

Rows = npt.NDArray[np.intp]

# Rows are sorted by scope, category and id, so a search multiplies contiguous blocks without
# copies. The product only selects candidates. Each candidate is scored again, in double precision
# and row by row, and rounded, so a score depends on the query and the skill alone.


DECIMALS: Final = 4
"""Decimals of a score. Encoding texts in other batches changes the seventh."""

_SLACK: Final = 10.0**-DECIMALS

Span = tuple[int, int]
Found = list[tuple[float, BankSkill]]


class SkillIndex:
    """Finds the skills that are most similar to a query.

    Args:
        skills: Skills of one kind, in any order.
        vectors: Their unit rows, in the same order, shape ``[n, d]``.

    Attributes:
        skills: The skills, in the order of the rows.
        matrix: The rows, shape ``[n, d]``.
    """

    def __init__(self, skills: Sequence[BankSkill], vectors: Vectors) -> None:
        keys = [(skill.scope, skill.category, skill.id) for skill in skills]
        order = sorted(range(len(skills)), key=keys.__getitem__)
        self.skills = tuple(skills[at] for at in order)
        self.matrix = np.ascontiguousarray(vectors[order]) if order else vectors
        self._keys = [keys[at] for at in order]
        self._spans: dict[tuple[str, str], tuple[Span, ...]] = {}

    def __len__(self) -> int:
        """Return the number of skills."""
        return len(self.skills)

    def search(self, query: Vectors, *, category: str, scope: str, k: int, above: float) -> Found:
        """Find the ``k`` most similar skills with a score strictly above a threshold.

        Args:
            query: A unit vector, shape ``[d]``.
            category: Search this category and skills for every category (``""``); ``""`` searches
                all.
            scope: Also search skills of this scope; ``""`` searches only those without one.
            k: At least 0.
            above: A cosine.

        Returns:
            Scores, rounded to `DECIMALS`, and skills; by descending score, then by id.
        """
        found: list[tuple[float, str, BankSkill]] = []
        for span in self._searched(category, scope) if k > 0 else ():
            rows = self._candidates(span, query, k, above)
            if rows.size:
                scores = self.matrix[rows].astype(np.float64) @ query.astype(np.float64)
                for row, score in zip(rows.tolist(), scores.round(DECIMALS).tolist(), strict=True):
                    if score > above:
                        skill = self.skills[row]
                        found.append((-score, skill.id, skill))
        found.sort(key=_by_score_then_id)
        return [(-minus, skill) for minus, _, skill in found[:k]]

    def _candidates(self, span: Span, query: Vectors, k: int, above: float) -> Rows:
        """Return the rows of a block that may be among the ``k`` best, near ties included."""
        scores = self.matrix[span[0] : span[1]] @ query
        rows: Rows = (scores > above - _SLACK).nonzero()[0]
        if rows.size > k:
            passing = scores[rows]
            least = np.partition(passing, rows.size - k)[rows.size - k]
            rows = rows[passing >= least - _SLACK]
        return rows + span[0]

    def _searched(self, category: str, scope: str) -> tuple[Span, ...]:
        key = (category, scope)
        if key not in self._spans:
            self._spans[key] = tuple(
                span
                for place in dict.fromkeys(("", scope))
                for span in self._blocks_of(place, category)
                if span[0] < span[1]
            )
        return self._spans[key]

    def _blocks_of(self, scope: str, category: str) -> list[Span]:
        if not category:
            return [self._span(scope)]
        return [self._span(scope, one) for one in ("", category)]

    def _span(self, *prefix: str) -> Span:
        size = len(prefix)
        start = bisect_left(self._keys, prefix, key=lambda key: key[:size])
        return start, bisect_right(self._keys, prefix, key=lambda key: key[:size])


def _by_score_then_id(found: tuple[float, str, BankSkill]) -> tuple[float, str]:
    return found[:2]


NEUTRAL_EPISODES = 10
"""Weight of the bank's win rate in a skill's utility, in episodes."""

_EVERYTHING = -2.0  # below every cosine


class RetrievalSettings(Settings):
    """How much is injected."""

    k_task: NonNegativeInt = 6
    """Maximum task-specific skills."""
    delta: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Similarity that a task-specific skill must exceed; unset, the embedder's default, because
    SkillRL's 0.4 would leave most tasks without a skill."""
    k_lessons: NonNegativeInt = 5
    """Maximum lessons."""


_DEFAULT = RetrievalSettings()


@dataclass(frozen=True, slots=True)
class Scored:
    """A retrieved skill.

    Attributes:
        score: Its similarity to the task, rounded; for a general skill, its utility.
    """

    skill: BankSkill
    score: float


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The skills of a task; each part is sorted, best first.

    Attributes:
        general: All general skills, by utility.
        task_specific: Skills of the category, by similarity.
        lessons: Lessons of the category, then others, each by similarity.
        category: The task's category, ``""`` if unknown.
        scope: The place that the task is set in, or ``""``.
        delta: The similarity threshold.
        embedder: Identity of the embedder.
    """

    general: tuple[Scored, ...] = ()
    task_specific: tuple[Scored, ...] = ()
    lessons: tuple[Scored, ...] = ()
    category: str = ""
    scope: str = ""
    delta: float = 0.0
    bank_version: int = 0
    embedder: str = ""

    @property
    def all(self) -> tuple[Scored, ...]:
        """All skills, in the order of the parts."""
        return self.general + self.task_specific + self.lessons


@dataclass(frozen=True)
class BankIndex:
    """A bank prepared for retrieval.

    Attributes:
        encoder: Encodes its skills and the queries.
    """

    bank: Bank
    encoder: Encoder
    general: tuple[Scored, ...] = field(init=False, repr=False)
    task_specific: SkillIndex = field(init=False, repr=False)
    lessons: SkillIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        utility = utilities(self.bank)
        general = [Scored(skill, utility[skill.id]) for skill in self._of(SkillKind.GENERAL)]
        general.sort(key=lambda one: (-one.score, one.skill.id))
        for name, value in (
            ("general", tuple(general)),
            ("task_specific", self._index(SkillKind.TASK_SPECIFIC)),
            ("lessons", self._index(SkillKind.LESSON)),
        ):
            object.__setattr__(self, name, value)

    def _of(self, kind: SkillKind) -> list[BankSkill]:
        return [skill for skill in self.bank.active if skill.kind == kind]

    def _index(self, kind: SkillKind) -> SkillIndex:
        skills = self._of(kind)
        return SkillIndex(skills, self.encoder.skills(skills))


def retrieve(
    index: BankIndex,
    query: Vectors,
    *,
    category: str = "",
    scope: str = "",
    settings: RetrievalSettings = _DEFAULT,
) -> Retrieved:
    """Choose the skills to inject for a task.

    All general skills that hold in its scope. At most ``k_task`` skills of its category (of all
    categories if it is unknown) with a similarity strictly above delta. At most ``k_lessons``
    lessons: those of its category, then others above delta. Skills without a category belong to
    every category. Ties are broken by id.

    Args:
        index: The bank.
        query: The unit vector of the task's description, shape ``[d]``.
        category: The task's category; ``""`` if unknown.
        scope: The place that it is set in; skills of other places are excluded.
        settings: Limits and threshold.
    """
    embedder = index.encoder.embedder
    delta = embedder.delta if settings.delta is None else settings.delta
    task = index.task_specific.search(
        query, category=category, scope=scope, k=settings.k_task, above=delta
    )
    return Retrieved(
        general=tuple(one for one in index.general if one.skill.scope in ("", scope)),
        task_specific=_scored(task),
        lessons=_scored(_lessons(index.lessons, query, category, scope, settings.k_lessons, delta)),
        category=category,
        scope=scope,
        delta=delta,
        bank_version=index.bank.version,
        embedder=embedder.identity,
    )


def utilities(bank: Bank) -> Mapping[str, float]:
    """Return how much better episodes end with each active skill than on average.

    Returns:
        By id: the skill's win rate, smoothed by `NEUTRAL_EPISODES`, minus that of all active
        skills, both over the episodes with them. In [-1, 1], rounded; 0 for a skill without
        episodes.
    """
    counts = {one.id: bank.stats[one.id] for one in bank.active if one.id in bank.stats}
    episodes = sum(one.episodes for one in counts.values())
    rate = sum(one.wins for one in counts.values()) / episodes if episodes else 0.0
    known = {key: round(_smoothed(one, rate) - rate, DECIMALS) for key, one in counts.items()}
    return {skill.id: known.get(skill.id, 0.0) for skill in bank.active}


def _smoothed(counts: SkillStats, rate: float) -> float:
    return (counts.wins + NEUTRAL_EPISODES * rate) / (counts.episodes + NEUTRAL_EPISODES)


def _lessons(
    lessons: SkillIndex, query: Vectors, category: str, scope: str, k: int, delta: float
) -> Found:
    if not category:
        return lessons.search(query, category="", scope=scope, k=k, above=delta)
    own = lessons.search(query, category=category, scope=scope, k=k, above=_EVERYTHING)
    if len(own) == k:
        return own
    near = lessons.search(query, category="", scope=scope, k=k + len(own), above=delta)
    taken = {skill.id for _, skill in own}
    return (own + [one for one in near if one[1].id not in taken])[:k]


def _scored(found: Found) -> tuple[Scored, ...]:
    return tuple(Scored(skill, score) for score, skill in found)

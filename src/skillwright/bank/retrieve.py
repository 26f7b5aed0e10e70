"""Which skills are injected for a task.

General skills always, the most useful first; of the task's category those that are similar enough;
and what failures like the ones that threaten it have taught.

Source: SkillRL (arXiv 2602.08234), requirements R6-R8. Its released code had no threshold, cut the
general skills to K, and injected the first five lessons of the file, whatever the task.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, NonNegativeInt

from skillwright.bank.bank import Bank, SkillStats
from skillwright.bank.embedding.embedders import Encoder, Vectors
from skillwright.core import BankSkill, SkillKind
from skillwright.core.settings import Settings

# The approximate index over a block of rows that is too large to multiply for every query.
#
# Source: Malkov and Yashunin, hierarchical navigable small worlds (arXiv:1603.09320), as usearch
# builds them.


CANDIDATES: Final = 32
"""Asked of the graph per query, at least; the best of them are scored exactly."""

_TAIL_SHARE: Final = 0.05  # of the rows may stand outside the graph before it is built again
_CONNECTIVITY: Final = 16
_EXPANSION_ADD: Final = 128
_EXPANSION_SEARCH: Final = 160

Rows = npt.NDArray[np.intp]

logger = logging.getLogger(__name__)


class Approximate:
    """Finds rows that are probably the nearest.

    A graph is built over the rows once. In a later version of the bank it serves again: rows that
    went are passed over, and the few that came (the tail) are multiplied one by one.

    Args:
        texts: Of the rows, which tell them from others.
        rows: Unit rows, shape ``[n, d]``.
        graph: Answers ``search(query, count)`` with keys, and knows how many it has; ``None``
            multiplies all rows.
        keys: Text -> key in the graph.
    """

    def __init__(
        self, texts: Sequence[str], rows: Vectors, graph: Any, keys: dict[str, int]
    ) -> None:
        self._rows, self._graph, self._keys = rows, graph, keys
        # As long as the graph, which has a key for each row that it was built of.
        self._row_of = np.full(0 if graph is None else len(graph), -1, dtype=np.intp)
        tail = []
        for row, text in enumerate(texts):
            key = keys.get(text)
            # Of two rows with the same text the graph knows one.
            if key is None or self._row_of[key] >= 0:
                tail.append(row)
            else:
                self._row_of[key] = row
        self._tail = np.asarray(tail, dtype=np.intp)
        self._tail_rows = rows[self._tail]

    @classmethod
    def of(cls, texts: Sequence[str], rows: Vectors, before: Iterable[Self] = ()) -> Self:
        """Take the graph that knows most of the rows already, or build one.

        The graph is built by one thread, so that equal rows in equal order give an equal graph.
        Without usearch all rows are multiplied: slower, and never wrong.
        """
        for other in before:
            known = sum(text in other._keys for text in texts)
            enough = (1 - _TAIL_SHARE) * max(len(texts), len(other._keys))
            if other._graph is not None and known >= enough:
                return cls(texts, rows, other._graph, other._keys)
        keys = {text: row for row, text in reversed(list(enumerate(texts)))}
        graph = _build(rows)
        return cls(texts, rows, graph, keys if graph is not None else {})

    def candidates(self, query: Vectors, k: int) -> Rows:
        """Return rows among which the ``k`` nearest are, with a probability of about 0.99."""
        count = max(CANDIDATES, 4 * k)
        if self._graph is None:
            return _best(self._rows @ query, count)
        near = self._graph.search(query, count, threads=1).keys.astype(np.intp)
        near = self._row_of[near]
        tail = self._tail[_best(self._tail_rows @ query, count)]
        rows: Rows = np.concatenate((near[near >= 0], tail))
        return rows


def _best(scores: Vectors, count: int) -> Rows:
    if scores.size <= count:
        return np.arange(scores.size)
    return np.argpartition(-scores, count)[:count]


def _build(rows: Vectors) -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        logger.warning(
            "%d skills are searched one by one, because usearch is not installed; "
            "pip install 'skillwright[embed]' makes it an index",
            len(rows),
        )
        return None
    graph = Index(
        ndim=rows.shape[1],
        metric="ip",
        dtype="f32",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
    )
    graph.add(np.arange(len(rows)), rows, threads=1)
    return graph


# Skills of one kind as a matrix, and the search in it.
#
# Rows are sorted by scope, category and id, so that what holds everywhere is one block, each
# category
# of it another inside, and a search multiplies a block without copying it. The block's product is
# only asked which rows come into question; those few are scored again, in double precision and row
# by row, and rounded. So a score hangs on the query and the skill alone: neither the company in
# which
# a text was encoded nor the skills beside it move it.


APPROXIMATE_FROM: Final = 100_000
"""Rows of a block from which on it is searched through an approximate index."""

DECIMALS: Final = 4
"""Of a score. Vectors of one text differ in the seventh, by what was encoded with it."""

_SLACK: Final = 10.0**-DECIMALS

Span = tuple[int, int]
Found = list[tuple[float, BankSkill]]


class SkillIndex:
    """Finds the skills that are most similar to a query.

    Args:
        skills: All of one kind, in any order.
        vectors: Their unit rows, in the same order, shape ``[n, d]``.
        approximate_from: Rows of a block from which on an approximate index is built; that takes
            about a minute per 100,000.
        previous: The index before the last changes; what it built is used again.

    Attributes:
        skills: The skills, in the order of the rows.
        matrix: The rows, shape ``[n, d]``.
    """

    def __init__(
        self,
        skills: Sequence[BankSkill],
        vectors: Vectors,
        *,
        approximate_from: int = APPROXIMATE_FROM,
        previous: "SkillIndex | None" = None,
    ) -> None:
        keys = [(skill.scope, skill.category, skill.id) for skill in skills]
        order = sorted(range(len(skills)), key=keys.__getitem__)
        self.skills = tuple(skills[at] for at in order)
        self.matrix = np.ascontiguousarray(vectors[order]) if order else vectors
        self._keys = [keys[at] for at in order]
        self._spans: dict[tuple[str, str], tuple[Span, ...]] = {}
        self._approximate: dict[Span, Approximate] = {}
        before = list(previous._approximate.values()) if previous is not None else []
        for span in self._blocks():
            if span[1] - span[0] >= approximate_from:
                block = self.skills[slice(*span)]
                self._approximate[span] = Approximate.of(
                    [skill.text for skill in block], self.matrix[slice(*span)], before
                )

    def __len__(self) -> int:
        """Return how many skills there are."""
        return len(self.skills)

    def search(self, query: Vectors, *, category: str, scope: str, k: int, above: float) -> Found:
        """Find the ``k`` most similar skills whose score is strictly above a threshold.

        Args:
            query: A unit vector, shape ``[d]``.
            category: Skills of it, and those for every category (``""``), are searched; ``""``
                searches all categories.
            scope: Skills of it are searched beside those that hold everywhere; ``""`` is none.
            k: At least 0.
            above: A cosine.

        Returns:
            Scores, rounded to `DECIMALS`, and skills; by falling score, then by id.
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
        """Return the rows of a block that may be among the best: those, and what is near a tie."""
        if span in self._approximate:
            return self._approximate[span].candidates(query, k) + span[0]
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

    def _blocks(self) -> set[Span]:
        """Every block that a search may multiply."""
        scopes = {scope for scope, _, _ in self._keys}
        pairs = {(scope, category) for scope, category, _ in self._keys}
        return {self._span(scope) for scope in scopes} | {self._span(*pair) for pair in pairs}

    def _span(self, *prefix: str) -> Span:
        size = len(prefix)
        start = bisect_left(self._keys, prefix, key=lambda key: key[:size])
        return start, bisect_right(self._keys, prefix, key=lambda key: key[:size])


def _by_score_then_id(found: tuple[float, str, BankSkill]) -> tuple[float, str]:
    return found[:2]


NEUTRAL_EPISODES = 10
"""A skill's rate of wins counts as if it had this many episodes more, at the bank's rate."""

_EVERYTHING = -2.0  # below every cosine


class RetrievalSettings(Settings):
    """How much is injected."""

    k_task: NonNegativeInt = 6
    """Most task-specific skills."""
    delta: Annotated[float, Field(ge=-1, le=1)] | None = None
    """The similarity that a task-specific skill must exceed; unset, the embedder's own."""
    k_lessons: NonNegativeInt = 5
    """Most lessons."""


_DEFAULT = RetrievalSettings()


@dataclass(frozen=True, slots=True)
class Scored:
    """A skill that was retrieved.

    Attributes:
        skill: The skill.
        score: Its similarity to the task, rounded; of a general skill, its utility.
    """

    skill: BankSkill
    score: float


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What is injected for a task, and why; each part is sorted, the best first.

    Attributes:
        general: All general skills, by utility.
        task_specific: Those of the category, by similarity.
        lessons: The category's own first, then others, each by similarity.
        category: The task's category, ``""`` where it is unknown.
        scope: The one place that the task is set in, or ``""``.
        delta: The similarity that was to be exceeded.
        bank_version: The version of the bank.
        embedder: Whose similarities these are.
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
        """All of them, in the order of the parts."""
        return self.general + self.task_specific + self.lessons


@dataclass(frozen=True)
class BankIndex:
    """A bank made ready for retrieval.

    Attributes:
        bank: The bank.
        encoder: Encodes its skills and the queries.
        previous: The index before the last changes, to build on.
    """

    bank: Bank
    encoder: Encoder
    previous: "BankIndex | None" = field(default=None, repr=False)
    general: tuple[Scored, ...] = field(init=False, repr=False)
    task_specific: SkillIndex = field(init=False, repr=False)
    lessons: SkillIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        utility = utilities(self.bank)
        kinds: dict[SkillKind, list[BankSkill]] = {kind: [] for kind in SkillKind}
        for skill in self.bank.active:
            kinds[skill.kind].append(skill)
        general = [Scored(skill, utility[skill.id]) for skill in kinds[SkillKind.GENERAL]]
        general.sort(key=lambda one: (-one.score, one.skill.id))
        before = self.previous
        task = self._index(
            kinds[SkillKind.TASK_SPECIFIC], None if before is None else before.task_specific
        )
        lessons = self._index(kinds[SkillKind.LESSON], None if before is None else before.lessons)
        for name, value in (
            ("general", tuple(general)),
            ("task_specific", task),
            ("lessons", lessons),
            ("previous", None),  # or every version that ever was would stay in memory
        ):
            object.__setattr__(self, name, value)

    def _index(self, skills: list[BankSkill], previous: SkillIndex | None) -> SkillIndex:
        return SkillIndex(skills, self.encoder.skills(skills), previous=previous)


def retrieve(
    index: BankIndex,
    query: Vectors,
    *,
    category: str = "",
    scope: str = "",
    settings: RetrievalSettings = _DEFAULT,
) -> Retrieved:
    """Choose what is injected for a task.

    All general skills that hold in its scope. At most ``k_task`` skills of its category (of every
    category where it is unknown) whose similarity is strictly above delta. At most ``k_lessons``
    lessons: those of its category, then those of others that are above delta. Skills without a
    category count as every category's own. Ties are broken by id, so that the answer depends on
    nothing else.

    Args:
        index: The bank.
        query: The unit vector of the task's description, shape ``[d]``.
        category: Of the task; ``""`` where it is unknown.
        scope: The one place that it is set in; skills of other places never are.
        settings: How much.
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
    """Tell how much better episodes end with each active skill than they do on the whole.

    Returns:
        By id: the skill's rate of wins less that of all active skills together, both over the
        episodes that they were injected into, and the former smoothed by
        `NEUTRAL_EPISODES`. In [-1, 1], rounded; 0 for a skill that was in no episode.
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

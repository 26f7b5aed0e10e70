"""Skills of one kind as a matrix, and the search in it.

Rows are sorted by scope, category and id, so that what holds everywhere is one block, each category
of it another inside, and a search multiplies a block without copying it. The block's product is
only asked which rows come into question; those few are scored again, in double precision and row
by row, and rounded. So a score hangs on the query and the skill alone: neither the company in which
a text was encoded nor the skills beside it move it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from skillwright.bank.embedding.embedder import Vectors
from skillwright.bank.index_approximate import Approximate, Rows
from skillwright.core import BankSkill

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

"""The approximate index over a block of rows that is too large to multiply for every query.

Source: Malkov and Yashunin, hierarchical navigable small worlds (arXiv:1603.09320), as usearch
builds them.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from skillwright.bank.embedding.embedder import Vectors

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

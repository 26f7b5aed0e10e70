"""Vectors that are worked out once: those of queries in memory, those of skills in a store."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from skillwright.bank.embedding.embedder import Embedder, Vectors
from skillwright.core import BankSkill, ConfigError, ModelError

MOST_QUERIES = 16_384
"""Query vectors that are kept: 25 MB of MiniLM's, and more tasks than ALFWorld has games."""


class VectorStore(Protocol):
    """Keeps the vectors of skills by content digest; a `BankStore` does."""

    def vectors(self, embedder_id: str) -> Mapping[str, Vectors]:
        """Return all vectors of an embedder, each of shape ``[d]``, by content digest."""
        ...

    def keep_vectors(self, embedder_id: str, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors, each of shape ``[d]``, by content digest."""
        ...


class Encoder:
    """An embedder that is never asked for the same text twice. Safe to share between threads.

    Args:
        embedder: Who encodes.
        store: Where vectors of skills outlive the process; ``None`` keeps them in memory only.
        most_queries: Query vectors that are kept; the one that was not used for longest goes first.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: VectorStore | None = None,
        most_queries: int = MOST_QUERIES,
    ) -> None:
        self.embedder = embedder
        self._store = store
        self._most_queries = most_queries
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self._skills: dict[str, Vectors] = {}
        self._guard = threading.RLock()

    def queries(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return the vector of each distinct text, of shape ``[d]``; what is new in one request."""
        with self._guard:
            wanted = dict.fromkeys(texts)
            new = [text for text in wanted if text not in self._queries]
            fresh = self._checked(new, self.embedder.encode_queries(new)) if new else {}
            found = {text: fresh[text] if text in fresh else self._recall(text) for text in wanted}
            self._queries.update(fresh)
            while len(self._queries) > self._most_queries:
                self._queries.popitem(last=False)
            return found

    def skills(self, skills: Sequence[BankSkill]) -> Vectors:
        """Return one row per skill, in order; what is new is encoded in one request, and kept.

        Returns:
            Shape ``[n, d]``; ``[0, 0]`` for no skills.
        """
        if not skills:
            return np.zeros((0, 0), dtype=np.float32)
        with self._guard:
            texts = [skill.text for skill in skills]
            pairs = zip(skills, texts, strict=True)
            # Digests cost more than all the rest here, so they are made of new skills only.
            self._learn({text: skill for skill, text in pairs if text not in self._skills})
            return np.stack([self._skills[text] for text in texts])

    def _learn(self, new: Mapping[str, BankSkill]) -> None:
        if not new:
            return
        digests = {text: skill.content_digest for text, skill in new.items()}
        kept = self._kept()
        found = {text: kept[key] for text, key in digests.items() if key in kept}
        unknown = [text for text in digests if text not in found]
        if unknown:
            fresh = self._checked(unknown, self.embedder.encode_skills(unknown), found)
            if self._store is not None:
                by_digest = {digests[text]: row for text, row in fresh.items()}
                self._store.keep_vectors(self.embedder.identity, by_digest)
            found |= fresh
        self._skills.update(found)

    def _checked(
        self, texts: Sequence[str], rows: Vectors, kept: Mapping[str, Vectors] | None = None
    ) -> dict[str, Vectors]:
        """Return rows by text; a wrong one would hide skills for as long as it is kept."""
        name = self.embedder.identity
        if np.shape(rows)[:1] != (len(texts),) or np.ndim(rows) != 2 or not np.isfinite(rows).all():
            raise ModelError(
                f"embedder {name!r} gave an array of shape {np.shape(rows)} for {len(texts)} "
                "texts; one row of finite numbers per text was expected"
            )
        known = next(
            (one for group in (kept or {}, self._skills) for one in group.values()), rows[0]
        )
        if known.shape != rows[0].shape:
            raise ConfigError(
                f"embedder {name!r} gives {len(rows[0])} numbers per text, and vectors that are "
                f"kept under the same name have {len(known)}: another model is behind the name. "
                "Name the model that made them, or give the new one another name."
            )
        return dict(zip(texts, rows, strict=True))

    def _kept(self) -> Mapping[str, Vectors]:
        return {} if self._store is None else self._store.vectors(self.embedder.identity)

    def _recall(self, text: str) -> Vectors:
        self._queries.move_to_end(text)
        return self._queries[text]

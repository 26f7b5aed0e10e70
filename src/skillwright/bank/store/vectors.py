"""Vectors of skills, kept so that a text is encoded once per embedder."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillwright.bank.errors import BankError
from skillwright.bank.store.file import BankFile
from skillwright.core.sqlite_file import Trouble

Vector = NDArray[np.float32]
"""A vector, shape ``[d]``."""

_STORED: Any = np.dtype("<f4")


class VectorTable:
    """The table ``vectors`` of a bank's file."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content digest; those that are there stay."""
        self._file.write_many(
            "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
            [
                (embedder, content, np.ascontiguousarray(vector, dtype=_STORED).tobytes())
                for content, vector in vectors.items()
            ],
        )

    def of(self, embedder: str) -> dict[str, Vector]:
        """Return an embedder's vectors by content digest."""
        rows = self._file.rows(
            "SELECT content, vector FROM vectors WHERE embedder = ? ORDER BY rowid", (embedder,)
        )
        return {row[0]: self._read(row[1]) for row in rows}

    def _read(self, body: Any) -> Vector:
        if isinstance(body, bytes) and len(body) % _STORED.itemsize == 0:
            vector: Vector = np.frombuffer(body, dtype=_STORED).astype(np.float32)
            if np.isfinite(vector).all():
                return vector
        raise BankError(
            f"{self._file.path} is damaged (a vector of its skills is none). Restore it from a "
            f"copy, or {self._file.advice(Trouble.DAMAGED)}"
        )

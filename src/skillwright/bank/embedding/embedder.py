"""Texts as vectors: what every embedder can do."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors whose product is their similarity.

    Both methods return one row per text, in order; no texts give no rows. They may be called from
    several threads.
    """

    @property
    def identity(self) -> str:
        """What tells its vectors from those of others: equal for equal vectors, and never else."""
        ...

    @property
    def delta(self) -> float:
        """The similarity that a skill must exceed to be told, calibrated for this embedder."""
        ...

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode what is looked for: task descriptions. Unit rows, shape ``[n, d]``."""
        ...

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode what is found: texts of skills. Unit rows, shape ``[n, d]``."""
        ...


def unit_rows(rows: npt.ArrayLike) -> Vectors:
    """Scale rows to length 1; a row of zeros stays one.

    Args:
        rows: Shape ``[n, d]``.
    """
    matrix = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)

"""What weights are, without reading them again: a digest of the first ones and of every step since.

A digest of all weights takes as long as reading them, after every step. Equal weights that take
equal steps stay equal, so a digest of the path is as good: rows, loss and norm of the gradient are
in it, and the norm alone is a number in which every weight and every row has its part.
"""

import hashlib
from collections.abc import Callable, Sequence

from skillwright.policy.backend import LossReport, Row, StepReport


class Lineage:
    """The digest of weights that learn.

    Args:
        begin: Reads all weights and returns their digest; called once at most, before the first
            step, or when the digest is first asked for.
        settings: Of the optimizer: weights that are stepped otherwise are others.
    """

    def __init__(self, begin: Callable[[], str], settings: str) -> None:
        self._begin, self._settings = begin, settings
        self._digest = ""
        self._learned = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The SHA-256 of the path as 64 hexadecimal digits; without a step, that of the weights."""
        if not self._digest:
            self._digest = self._begin()
        return self._digest

    def learned(self, rows: Sequence[Row], report: LossReport) -> None:
        """Take note of rows whose gradient waits for the next step."""
        for row in rows:
            self._learned.update(repr(row).encode())
        self._learned.update(repr(report).encode())

    def dropped(self) -> None:
        """Forget rows whose gradient was dropped."""
        self._learned = hashlib.sha256()

    def about_to_step(self) -> None:
        """Read the weights while they are the first ones, unless their digest is known."""
        _ = self.digest

    def stepped(self, report: StepReport) -> None:
        """Take note of a step; one that was skipped moved nothing."""
        if not report.skipped:
            facts = (self._digest, self._settings, self._learned.hexdigest(), report)
            self._digest = hashlib.sha256(repr(facts).encode()).hexdigest()
        self.dropped()

    def restore(self, digest: str) -> None:
        """Begin at weights with the digest of a checkpoint; ``""`` computes it."""
        self._digest = digest
        self.dropped()

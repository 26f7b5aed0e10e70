"""Identify trained weights by a digest of the initial ones and of every step.

Hashing all weights after every step would take too long. Equal steps from equal weights give equal
weights, so a digest of each step's rows, loss and gradient norm is sufficient.
"""

import hashlib
from collections.abc import Callable, Sequence

from skillwright.policy.backend import LossReport, Row, StepReport


class Lineage:
    """The digest of trained weights.

    Args:
        begin: Returns the digest of all weights; called at most once, before the first step, or
            when the digest is first requested.
        settings: Optimizer settings, which affect the weights.
    """

    def __init__(self, begin: Callable[[], str], settings: str) -> None:
        self._begin, self._settings = begin, settings
        self._digest = ""
        self._learned = hashlib.sha256()

    @property
    def digest(self) -> str:
        """SHA-256 of the steps as 64 hexadecimal digits; before any step, that of the weights."""
        if not self._digest:
            self._digest = self._begin()
        return self._digest

    def learned(self, rows: Sequence[Row], report: LossReport) -> None:
        """Record rows whose gradient is pending."""
        for row in rows:
            self._learned.update(repr(row).encode())
        self._learned.update(repr(report).encode())

    def dropped(self) -> None:
        """Drop rows whose gradient was dropped."""
        self._learned = hashlib.sha256()

    def about_to_step(self) -> None:
        """Hash the initial weights, unless their digest is known."""
        _ = self.digest

    def stepped(self, report: StepReport) -> None:
        """Record a step; a skipped one changes nothing."""
        if not report.skipped:
            facts = (self._digest, self._settings, self._learned.hexdigest(), report)
            self._digest = hashlib.sha256(repr(facts).encode()).hexdigest()
        self.dropped()

    def restore(self, digest: str) -> None:
        """Set the digest of a checkpoint; ``""`` computes it."""
        self._digest = digest
        self.dropped()

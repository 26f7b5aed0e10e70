"""One alpha for a whole run: how much chance of a false accept each decision may take."""

from dataclasses import dataclass, replace
from typing import Self

from skillwright.core.codec import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.verdict import Verdict


@dataclass(frozen=True, slots=True)
class AlphaLedger(JsonRecord):
    """Spends one alpha over the decisions that a run plans to make, evenly or by given shares.

    By Bonferroni's inequality the chance
    that a run accepts even one edit that changes nothing is at most ``total``, whatever the edits
    have in common. A decision that makes no test spends nothing. A decision beyond the plan finds
    nothing left.

    Attributes:
        total: The run's alpha, in (0, 1).
        planned: Decisions that the run will make at most; at least 1.
        made: Decisions that made a test so far.
        shares: How much of ``total`` each planned decision may take, in order; together at most 1.
            Empty shares it evenly.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    total: float
    planned: int
    made: int = 0
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.total < 1:
            raise ValueError(f"alpha is {self.total}; it must be strictly between 0 and 1")
        if self.planned < 1 or self.made < 0:
            raise ValueError(f"{self.made} of {self.planned} planned decisions made; plan one")
        if self.shares and (len(self.shares) != self.planned or sum(self.shares) > 1 + 1e-9):
            raise ValueError(f"{self.shares} are not the shares of {self.planned} decisions")

    @property
    def share(self) -> float:
        """The alpha that the next decision may take; 0 when the plan is used up."""
        return self._share_of(self.made) if self.made < self.planned else 0.0

    @property
    def spent(self) -> float:
        """The alpha that is spent, at most ``total``."""
        return sum(map(self._share_of, range(self.made)))

    def _share_of(self, decision: int) -> float:
        return self.total * (self.shares[decision] if self.shares else 1 / self.planned)

    def spend(self, verdict: Verdict) -> Self:
        """Return the ledger after a decision; unchanged where the verdict made no test.

        Folding this over the stored verdicts of a run rebuilds its ledger.

        Raises:
            ValueError: The verdict made a test although nothing was left.
        """
        if verdict.alpha is None:
            return self
        if self.made >= self.planned:
            raise ValueError(f"all {self.planned} planned decisions are made; no alpha is left")
        return replace(self, made=self.made + 1)

"""The decision of a gate, and its reason."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord


class Decision(StrEnum):
    """The decision about a candidate."""

    ACCEPT = "accept"
    """It replaces the incumbent."""
    REJECT = "reject"
    """The incumbent stays: the candidate did not prove itself, or did harm."""
    UNDECIDED = "undecided"
    """The incumbent stays: too little could be measured to judge the candidate."""


@dataclass(frozen=True, slots=True)
class Verdict(JsonRecord):
    """A gate's decision with the numbers behind it; rewards are in [0, 1].

    Attributes:
        effect: Mean gain of the candidate over the incumbent, or ``None`` if none was measured.
        interval: 95% confidence interval of the effect, or ``None`` where the pairs show no
            spread to take one from.
        p_value: The chance of a gain at least this large if the candidate changed nothing;
            ``None`` where no test was made.
        alpha: What this decision spent of the run's alpha; ``None`` where no test was made.
        pairs: Scored pairs.
        lost: Pairs left out because a side has a Failure.
        rollouts: Episodes that both sides ran for this decision, lost ones included.
        incumbent_score: The incumbent's mean over tasks, or ``None`` if none was measured.
        candidate_score: The candidate's, on the same tasks and draws.
        better: Tasks on which the candidate did better; ``None`` where the gate does not say.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    decision: Decision
    reason: str
    effect: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    alpha: float | None = None
    pairs: int = 0
    lost: int = 0
    rollouts: int = 0
    incumbent_score: float | None = None
    candidate_score: float | None = None
    better: int | None = None
    worse: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the candidate replaces the incumbent."""
        return self.decision is Decision.ACCEPT


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

    @property
    def left(self) -> float:
        """The alpha that is not spent."""
        return max(self.total - self.spent, 0.0)

    def _share_of(self, decision: int) -> float:
        return self.total * (self.shares[decision] if self.shares else 1 / self.planned)

    def spend(self, verdict: Verdict) -> Self:
        """Return the ledger after a decision; unchanged where the verdict made no test.

        Called with each stored verdict of a run in order, it rebuilds the ledger.

        Raises:
            ValueError: The verdict made a test although nothing was left.
        """
        if verdict.alpha is None:
            return self
        if self.made >= self.planned:
            raise ValueError(f"all {self.planned} planned decisions are made; no alpha is left")
        return replace(self, made=self.made + 1)

"""The decision of a gate, and its reason."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.intervals import gain_text


class Decision(StrEnum):
    """The decision about a candidate."""

    ACCEPT = "accept"
    """It replaces the incumbent."""
    REJECT = "reject"
    """The incumbent stays: no significant gain, or a loss."""
    UNDECIDED = "undecided"
    """The incumbent stays: too few pairs were scored to decide."""


@dataclass(frozen=True, slots=True)
class Look(JsonRecord):
    """One look of a test at the draws so far.

    Attributes:
        draws: Draws per task and side so far; tasks that were not drawn again have fewer.
        alpha: The alpha that may be spent up to this look.
        p_value: ``None`` if too many pairs were lost to test.
        tasks: Tasks that have been drawn, of all that the test has, in order.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    draws: int
    alpha: float
    p_value: float | None
    tasks: int


@dataclass(frozen=True, slots=True)
class Estimate(JsonRecord):
    """An expected value, in [-1, 1], and its standard deviation."""

    __pydantic_config__ = REFUSE_UNKNOWN

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} (standard error {self.error:.2f})"


@dataclass(frozen=True, slots=True)
class Expected(JsonRecord):
    """A gain that is expected on further tasks, in [-1, 1], with a 95% interval."""

    __pydantic_config__ = REFUSE_UNKNOWN

    gain: float
    low: float
    high: float

    def __str__(self) -> str:
        return gain_text(self.gain, (self.low, self.high))


Rewards = dict[str, tuple[float, int]]
"""By task id, the sum of the scored draws and their number."""


@dataclass(frozen=True, slots=True)
class Seen(JsonRecord):
    """What a decision saw of a candidate, for the belief of later decisions.

    Attributes:
        candidate: Draws of the candidate; for the first record of a run, of the initial skill.
        incumbent: New draws of the current skill.
        accepted: Whether the candidate became the current skill.
        train: Sum and number of the scores of the current skill on the step's train batch.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    candidate: Rewards
    incumbent: Rewards = field(default_factory=dict)
    accepted: bool = False
    train: tuple[float, int] = (0.0, 0)


@dataclass(frozen=True, slots=True)
class Verdict(JsonRecord):
    """A gate's decision with the numbers behind it; rewards are in [0, 1].

    Attributes:
        effect: Mean gain of the candidate over the incumbent in this decision's draws; ``None``
            without scored pairs.
        interval: 95% confidence interval of the effect; ``None`` if the pairs have no variance.
        expected: Gain that is expected on further tasks, of a proven release: the effect, corrected
            for its selection; ``None`` where it is not known.
        p_value: Probability of a gain at least this large if the candidate changed nothing;
            ``None`` without a test.
        alpha: Alpha that this decision spent; ``None`` without a test.
        pairs: Scored pairs.
        lost: Pairs left out because of a failure.
        rollouts: Episodes of both sides for this decision, failed ones included.
        incumbent_score: The incumbent's mean over tasks; ``None`` without scored pairs.
        candidate_score: The candidate's, on the same tasks and draws.
        better: Tasks on which the candidate did better; ``None`` if the gate does not count them.
        worse: Tasks on which it did worse.
        moved: Mean gain by task id, of tasks with a different result; empty if the gate does not
            say.
        looks: The looks of the test, in order; empty if the gate makes no such test.
        current: What is believed about the current skill's mean score after this decision.
        seen: The scores behind it, for the belief of later decisions.
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
    moved: dict[str, float] = field(default_factory=dict)
    looks: tuple[Look, ...] = ()
    current: Estimate | None = None
    seen: Seen | None = None
    expected: Expected | None = None

    @property
    def accepted(self) -> bool:
        """Whether the candidate replaces the incumbent."""
        return self.decision is Decision.ACCEPT


@dataclass(frozen=True, slots=True)
class AlphaLedger(JsonRecord):
    """Splits a run's alpha over its planned decisions, evenly or by given shares (Bonferroni).

    The probability that a run accepts any edit without effect is at most ``total``, however the
    edits depend on each other. A decision without a test spends nothing; for a decision beyond the
    plan no alpha is left.

    Attributes:
        total: The run's alpha, in (0, 1).
        planned: Maximum number of decisions of the run; at least 1.
        made: Decisions with a test so far.
        shares: Share of ``total`` for each planned decision, in order, with a sum of at most 1;
            empty for equal shares.
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
        """Alpha of the next decision; 0 after the last planned one."""
        return self._share_of(self.made) if self.made < self.planned else 0.0

    @property
    def spent(self) -> float:
        """Alpha spent so far, at most ``total``."""
        return sum(map(self._share_of, range(self.made)))

    @property
    def left(self) -> float:
        """Alpha not yet spent."""
        return max(self.total - self.spent, 0.0)

    def _share_of(self, decision: int) -> float:
        return self.total * (self.shares[decision] if self.shares else 1 / self.planned)

    def spend(self, verdict: Verdict) -> Self:
        """Return the ledger after a decision; unchanged if the verdict is without a test.

        If a release test succeeds, its share of alpha is there for the next one: a fixed sequence,
        in which a claim is only tested after all earlier ones were proven, needs no correction.

        A run's ledger is rebuilt by spending its stored verdicts in order.

        Raises:
            ValueError: The verdict has a test, and no decision is left.
        """
        if verdict.alpha is None or (self.shares and verdict.accepted):
            return self
        if self.made >= self.planned:
            raise ValueError(f"all {self.planned} planned decisions are made; no alpha is left")
        return replace(self, made=self.made + 1)

"""What a gate decides, and why."""

from dataclasses import dataclass
from enum import StrEnum

from skillwright.core.codec import REFUSE_UNKNOWN, JsonRecord


class Decision(StrEnum):
    """What becomes of a candidate."""

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
        better: Tasks on which the candidate did better; ``None`` in a verdict of an older version.
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

"""What became of a candidate: the records that a run's state is rebuilt from."""

from dataclasses import dataclass, field

from skillwright.core.codec import JsonRecord
from skillwright.evaluation import Verdict
from skillwright.textopt import StepEntry

_ENTERING = ("accept_new_best", "accept", "force_accept", "inject_placeholder")


class Judged:
    """What a record says of its candidate, and what became of it.

    Two skills stand: the current one, which training continues from, and the best one, which has
    proved itself. They part only where something enters the current skill unmeasured. The actions:

        accept_new_best     it beat both, or the one that is both: it is current and best now
        accept              it beat the current skill and not the best one
        force_accept        it is current without having to beat anything
        inject_placeholder  an empty region entered the current skill
        reject, undecided   nothing moves
        skip_...            there was nothing to judge
    """

    __slots__ = ()

    action: str
    verdict: Verdict | None
    best_verdict: Verdict | None

    @property
    def enters(self) -> bool:
        """Whether the candidate became the current skill."""
        return self.action in _ENTERING

    @property
    def is_best(self) -> bool:
        """Whether the candidate became the best skill."""
        beat_best = self.best_verdict is not None and self.best_verdict.accepted
        return self.action == "accept_new_best" or beat_best

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The gate's judgements, in the order in which they were made."""
        return tuple(v for v in (self.verdict, self.best_verdict) if v is not None)

    @property
    def accepted(self) -> bool:
        """Whether the candidate proved itself against the current skill or the best one."""
        return any(verdict.accepted for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class StepRecord(Judged, JsonRecord):
    """A decided step.

    Attributes:
        step: From 1.
        epoch: From 1.
        action: What became of it; see `Judged`.
        entry: What later steps are told about it.
        verdict: The gate's judgement against the current skill, or ``None`` where it was not asked.
        skill_version: The version of the candidate, or ``None`` where there was none.
        best_verdict: Its judgement against the best skill, where that is another one and was asked.
        noted_version: The version that is current because reminders were added to it, unmeasured;
            or ``None``.
    """

    step: int
    epoch: int
    action: str
    entry: StepEntry
    verdict: Verdict | None = None
    skill_version: int | None = None
    best_verdict: Verdict | None = field(default=None, kw_only=True)
    noted_version: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class EpochRecord(Judged, JsonRecord):
    """The look back over an epoch.

    Attributes:
        epoch: From 1.
        steps_ended_with: The skill version after the epoch's last step, before its slow update.
        action: What became of the slow update, ``""`` where none was due; see `Judged`.
        meta_skill: What the optimiser is told in the next epoch.
        verdict: The gate's judgement of the slow update against the current skill, or ``None``
            where it was not asked.
        skill_version: The version of the slow update's candidate, or ``None``.
        best_verdict: Its judgement against the best skill, where that is another one and was asked.
    """

    epoch: int
    steps_ended_with: int
    action: str = ""
    meta_skill: str = ""
    verdict: Verdict | None = None
    skill_version: int | None = None
    best_verdict: Verdict | None = field(default=None, kw_only=True)

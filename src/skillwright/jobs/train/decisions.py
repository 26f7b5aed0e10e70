"""What became of a candidate: the records that a run's state is folded from.

Two skills stand: the current one, which training continues from, and the best one, which has proved
itself. They part only where something enters the current skill unmeasured. The actions:

    accept_new_best     it beat both, or the one that is both: it is current and best now
    accept              it beat the current skill and not the best one
    force_accept        it is current without having to beat anything
    inject_placeholder  an empty region entered the current skill
    reject, undecided   nothing moves
    skip_...            there was nothing to judge
"""

from dataclasses import dataclass, field
from typing import Any, Self

from skillwright.evaluation import Verdict
from skillwright.textopt import StepEntry

_ENTERING = ("accept_new_best", "accept", "force_accept", "inject_placeholder")


class Judged:
    """What a record says of its candidate."""

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
class StepRecord(Judged):
    """A decided step.

    Attributes:
        step: From 1.
        epoch: From 1.
        action: What became of it; see the head of this module.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "action": self.action,
            "entry": self.entry.to_dict(),
            **_verdicts(self),
            "skill_version": self.skill_version,
            "noted_version": self.noted_version,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(
            step=data["step"],
            epoch=data["epoch"],
            action=data["action"],
            entry=StepEntry.from_dict(data["entry"]),
            verdict=_read_verdict(data, "verdict"),
            skill_version=data["skill_version"],
            best_verdict=_read_verdict(data, "best_verdict"),
            noted_version=data.get("noted_version"),
        )


@dataclass(frozen=True, slots=True)
class EpochRecord(Judged):
    """The look back over an epoch.

    Attributes:
        epoch: From 1.
        steps_ended_with: The skill version after the epoch's last step, before its slow update.
        action: What became of the slow update, ``""`` where none was due; see the head of this
            module.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "epoch": self.epoch,
            "steps_ended_with": self.steps_ended_with,
            "action": self.action,
            "meta_skill": self.meta_skill,
            **_verdicts(self),
            "skill_version": self.skill_version,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote; keys beside the fields are for people."""
        return cls(
            epoch=data["epoch"],
            steps_ended_with=data["steps_ended_with"],
            action=data["action"],
            meta_skill=data["meta_skill"],
            verdict=_read_verdict(data, "verdict"),
            skill_version=data["skill_version"],
            best_verdict=_read_verdict(data, "best_verdict"),
        )


def _verdicts(record: Judged) -> dict[str, Any]:
    return {
        "verdict": record.verdict.to_dict() if record.verdict else None,
        "best_verdict": record.best_verdict.to_dict() if record.best_verdict else None,
    }


def _read_verdict(data: dict[str, Any], name: str) -> Verdict | None:
    found = data.get(name)  # a run of an earlier version knew one verdict only
    return Verdict.from_dict(found) if found else None

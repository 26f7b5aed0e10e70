"""Where a training run stands: a fold over the events in its store.

Nothing else decides how a run goes on, so a resumed run takes the decisions that an uninterrupted
one would have taken.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from skillwright.evaluation import AlphaLedger, ScoreTable, SplitReport, Verdict
from skillwright.runs import Event
from skillwright.textopt import StepEntry, StepMemory


class Kind(StrEnum):
    """What an event says."""

    BASELINE = "baseline"
    """The initial skill has its score on val."""
    STEP = "step"
    """A step is decided."""
    EPOCH = "epoch"
    """An epoch is looked back on."""
    TEST_OPENED = "test_opened"
    """The seal of the test split is broken; the artefacts that will be scored are fixed."""
    TEST = "test"
    """The artefacts have their scores on test."""
    FINISHED = "finished"
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A decided step.

    Attributes:
        step: From 1.
        epoch: From 1.
        action: ``accept_new_best``, ``reject``, ``undecided``, or ``skip_...``.
        entry: What later steps are told about it.
        verdict: The gate's judgement, or ``None`` where it was not asked.
        skill_version: The version of the candidate, or ``None`` where there was none.
    """

    step: int
    epoch: int
    action: str
    entry: StepEntry
    verdict: Verdict | None = None
    skill_version: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the candidate replaced the skill."""
        return self.verdict is not None and self.verdict.accepted

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "action": self.action,
            "entry": self.entry.to_dict(),
            "verdict": self.verdict.to_dict() if self.verdict else None,
            "skill_version": self.skill_version,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        verdict = data["verdict"]
        return cls(
            step=data["step"],
            epoch=data["epoch"],
            action=data["action"],
            entry=StepEntry.from_dict(data["entry"]),
            verdict=Verdict.from_dict(verdict) if verdict else None,
            skill_version=data["skill_version"],
        )


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """The look back over an epoch.

    Attributes:
        epoch: From 1.
        steps_ended_with: The skill version after the epoch's last step, before its slow update.
        action: What became of the slow update: ``accept_new_best``, ``reject``, ``undecided``,
            ``skip_...``, or ``""`` where none was due.
        meta_skill: What the optimiser is told in the next epoch.
        verdict: The gate's judgement of the slow update, or ``None`` where it was not asked.
        skill_version: The version of the slow update's candidate, or ``None``.
    """

    epoch: int
    steps_ended_with: int
    action: str = ""
    meta_skill: str = ""
    verdict: Verdict | None = None
    skill_version: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether the slow update replaced the skill."""
        return self.verdict is not None and self.verdict.accepted

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "epoch": self.epoch,
            "steps_ended_with": self.steps_ended_with,
            "action": self.action,
            "meta_skill": self.meta_skill,
            "verdict": self.verdict.to_dict() if self.verdict else None,
            "skill_version": self.skill_version,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote; keys beside the fields are for people."""
        verdict = data["verdict"]
        known = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "verdict": Verdict.from_dict(verdict) if verdict else None})


@dataclass(frozen=True, slots=True)
class TrainState:
    """What a run knows.

    Attributes:
        memory: What earlier steps tried, for analysts.
        ledger: The alpha that is left.
        skill_version: The skill that stands; the best one too, because only a gate moves it.
        accepts: How often it was replaced.
        baseline: The initial skill's score on val, or ``None`` before it is measured.
        steps: The decided steps, in order.
        epochs: The epochs that were looked back on, in order.
        sealed: Whether the test split is still closed.
        report: The test report, or ``None`` before the end and where the run does not test.
        finished: Whether nothing is left to do.
    """

    memory: StepMemory
    ledger: AlphaLedger
    skill_version: int = 0
    accepts: int = 0
    baseline: ScoreTable | None = None
    steps: tuple[StepRecord, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()
    sealed: bool = True
    report: SplitReport | None = None
    finished: bool = False

    @classmethod
    def first(cls, alpha: float, planned: int) -> Self:
        """Return the state before anything happened.

        Args:
            alpha: The chance of a false accept that the whole run may take.
            planned: Decisions that share it, at least 1.
        """
        return cls(StepMemory(), AlphaLedger(alpha, planned))

    @property
    def last_step(self) -> int:
        """The last decided step, 0 before the first."""
        return self.steps[-1].step if self.steps else 0

    @property
    def last_epoch(self) -> int:
        """The last epoch that was looked back on, 0 before the first."""
        return self.epochs[-1].epoch if self.epochs else 0

    @property
    def meta_skill(self) -> str:
        """What the optimiser has learned about optimising, or ``""``."""
        return self.epochs[-1].meta_skill if self.epochs else ""

    def after(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after one more event; events of other kinds change nothing."""
        match kind:
            case Kind.BASELINE:
                return replace(self, baseline=ScoreTable.from_dict(payload))
            case Kind.STEP:
                return self._after_step(StepRecord.from_dict(payload))
            case Kind.EPOCH:
                return self._after_epoch(EpochRecord.from_dict(payload))
            case Kind.TEST_OPENED:
                return replace(self, sealed=False)
            case Kind.TEST:
                return replace(self, report=SplitReport.from_dict(payload))
            case Kind.FINISHED:
                return replace(self, finished=True)
            case _:
                return self

    def _after_step(self, record: StepRecord) -> Self:
        judged = self._judged(record.verdict, record.skill_version)
        memory = self.memory.remember(record.entry)
        return replace(judged, memory=memory, steps=(*self.steps, record))

    def _after_epoch(self, record: EpochRecord) -> Self:
        judged = self._judged(record.verdict, record.skill_version)
        return replace(judged, epochs=(*self.epochs, record))

    def _judged(self, verdict: Verdict | None, version: int | None) -> Self:
        """Return what a gate's judgement makes of the state; without one nothing changes."""
        if verdict is None:
            return self
        ledger = self.ledger.spend(verdict)
        if not verdict.accepted or version is None:
            return replace(self, ledger=ledger)
        return replace(self, ledger=ledger, skill_version=version, accepts=self.accepts + 1)


def fold(start: TrainState, events: Iterable[Event]) -> TrainState:
    """Return the state that a run's events lead to."""
    for event in events:
        start = start.after(event.kind, event.payload)
    return start

"""What a job says while it runs: one typed event per thing that happens.

Callbacks only observe. A callback that raises stops the run, as any bug does; none may change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skillwright.core import EpisodeResult, Usage
from skillwright.evaluation import Score, Verdict


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins or resumes.

    Attributes:
        folder: The folder, as displayed.
        llms: The identity of the model by role.
        facts: Short lines about the set-up, in order.
        steps: Steps in the whole run; 0 for a job without steps.
        epochs: Epochs in the whole run; 0 for a job without steps.
        episodes: Expected episodes of the whole run.
        resumed_at: The first remaining step of a resumed run; else ``None``.
    """

    name: str
    folder: str
    llms: Mapping[str, str]
    facts: tuple[str, ...] = ()
    steps: int = 0
    epochs: int = 0
    episodes: int = 0
    resumed_at: int | None = None


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins.

    Attributes:
        stage: ``baseline``, ``rollout``, ``reflect``, ``gate``, ``epoch update``, ``release test``,
            ``test`` or ``confirm``. The baseline runs during the first step; test and
            confirmation run together.
        step: Step from 1, 0 outside the steps; a slow update's gate has the epoch's last.
        epoch: Epoch from 1, 0 outside the epochs.
        episodes: Expected episodes of the stage, or 0.
    """

    stage: str
    step: int = 0
    epoch: int = 0
    episodes: int = 0


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode has its reward or its failure.

    Attributes:
        reused: Whether it was in the store.
        in_flight: Number of calls that are at endpoints now.
    """

    result: EpisodeResult
    reused: bool = False
    in_flight: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallFinished:
    """An optimizer call was answered, or given up."""

    purpose: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Scored:
    """A skill has a score on a split; ``hints`` say what to change where it is 0%."""

    label: str
    split: str
    score: Score
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepDecided:
    """A step has ended.

    Attributes:
        action: ``accept_new_best``, ``accept``, ``force_accept``, ``reject``, ``undecided``, or
            ``skip_...``.
        verdict: The gate's first verdict: against the current skill, or with an open gate against
            the best one.
        version: The candidate's version, or ``None`` without a candidate.
        alpha_left: The run's remaining alpha; ``None`` if unknown.
        remarks: What was unusable, dropped or repaired in the optimizer's replies, and why.
    """

    step: int
    epoch: int
    action: str
    verdict: Verdict | None
    version: int | None = None
    alpha_left: float | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch was updated.

    Attributes:
        action: The outcome of its slow update, or ``""`` without one.
        verdict: The gate's first verdict on it.
        version: The candidate's version, or ``None`` without a candidate.
        remarks: What was unusable or dropped in the optimizer's replies, and why.
    """

    epoch: int
    action: str
    verdict: Verdict | None
    version: int | None = None
    remarks: tuple[str, ...] = ()


SHOWN_AS = {"empty": "no skill", "best": "released", "final": "current"}
"""What people are shown for the names of artifacts in stored reports of a training."""


@dataclass(frozen=True, slots=True)
class ReleaseTested:
    """The current skill was tested against the released one; ``alpha_left`` may be unknown."""

    verdict: Verdict
    alpha_left: float | None = None


@dataclass(frozen=True, slots=True)
class Caveat:
    """A sentence that readers of a run's result must know."""

    text: str


Event = (
    RunStarted
    | StageStarted
    | EpisodeFinished
    | CallFinished
    | Scored
    | StepDecided
    | EpochEnded
    | ReleaseTested
    | Caveat
)


class Callback(Protocol):
    """Sees every event of a job, in order."""

    def on_event(self, event: Event) -> None:
        """Take note of an event; must not block."""


class NullCallback:
    """Looks away."""

    def on_event(self, event: Event) -> None:
        """Do nothing."""

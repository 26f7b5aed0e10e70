"""What the recipe says while it runs, beside what every job says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from skillwright.evaluation import Score
from skillwright.jobs.parts.progress import Event
from skillwright.jobs.rl.state import EvolutionRecord, IterationRecord


@dataclass(frozen=True, slots=True)
class FirstBankMade:
    """The bank that the recipe begins with is there.

    Attributes:
        version: Its version.
        headline: How many skills it has, of which kinds.
        notes: What else is to be said.
    """

    version: int
    headline: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStartStep:
    """A step of the cold start.

    Attributes:
        step: From 0.
        steps: How many there are.
        surprise: Mean cross-entropy per target token, in nats.
        grad_norm: Of the gradient before clipping.
    """

    step: int
    steps: int
    surprise: float
    grad_norm: float


@dataclass(frozen=True, slots=True)
class ColdStartEnded:
    """The policy has learned from the expert.

    Attributes:
        episodes: Of the expert.
        wins: Solved ones; their turns were learned from.
        rows: Turns that were learned from.
        surprise: Mean cross-entropy per target token at the end, in nats.
    """

    episodes: int
    wins: int
    rows: int
    surprise: float


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """An iteration is played and learned from.

    Attributes:
        record: The outcome.
        rollout_s: Seconds of the rollouts.
        learning_s: Seconds of the update.
    """

    record: IterationRecord
    rollout_s: float
    learning_s: float

    @property
    def episodes_per_s(self) -> float:
        """Episodes per second, rollout and update together."""
        return self.record.episodes / max(self.rollout_s + self.learning_s, 1e-9)

    @property
    def tokens_per_s(self) -> float:
        """Tokens that the policy chose, per second of the rollouts; choices of a scorer."""
        return self.record.tokens * self.record.episodes / max(self.rollout_s, 1e-9)


@dataclass(frozen=True, slots=True)
class BankEvolved:
    """An update of the bank is decided.

    Attributes:
        record: The outcome.
    """

    record: EvolutionRecord


@dataclass(frozen=True, slots=True)
class Validated:
    """The policy has its score on val.

    Attributes:
        iteration: After which one; 0 is the cold start.
        score: All of val.
        task_types: By task type.
        is_best: Whether none was better.
    """

    iteration: int
    score: Score
    task_types: Mapping[str, Score]
    is_best: bool


RlEvent = (
    Event
    | FirstBankMade
    | ColdStartStep
    | ColdStartEnded
    | IterationEnded
    | BankEvolved
    | Validated
)


class RlCallback(Protocol):
    """Is called with every event of the recipe, in order. It must not change the run."""

    def on_event(self, event: RlEvent) -> None:
        """Take note of an event; must not block."""
        ...

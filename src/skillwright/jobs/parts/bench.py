"""Where a run practises, is judged and is tested: one seam between the loop and what it plays.

The loop speaks of skills, steps and splits, and never of tasks, engines or rows. `TextBench` plays
our own environments; an adapter of somebody else's has a bench of its own. Whatever a bench plays
it must remember, so that a run that was stopped pays for nothing twice.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from skillwright.core import Duel, EpisodeResult
from skillwright.datasets import BatchSpec
from skillwright.evaluation import Draws
from skillwright.textopt import Comparison, Optimizer, Practice, StepSettings

SplitName = Literal["train", "val", "test"]


class Place(NamedTuple):
    """Where a step stands in the run; both numbers from 1."""

    step: int
    epoch: int


class Sizes(NamedTuple):
    """How many tasks a split has; ``None`` where that is known only when it is first played.

    ``val`` counts what gates may draw, so without the tasks that are kept for confirmation.
    """

    train: int
    val: int | None
    test: int | None


class Bench(Protocol):
    """Plays for a run. Results are never a matter of time, and a fault is never a score.

    Every method that plays raises what stops an engine: `ModelRefused` for a key or a model that is
    refused, `EngineDown` where nothing but failures comes back, `UsageError` for an environment
    that cannot be built as asked.
    """

    @property
    def target_identity(self) -> str:
        """Who acts, for people."""
        ...

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Take what proposals are made with, before a training plays."""
        ...

    @property
    def sizes(self) -> Sizes:
        """How many tasks there are."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """By split, a JSON object that tells its tasks from others; a resume compares them.

        ``{"train": {"tasks": 12, "sha256": "..."}, ...}``: ``tasks`` stands in every one.
        """
        ...

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch.

        Args:
            epoch: From 1.
            count: Micro-batches in the epoch.
            size: Rollouts per micro-batch.

        Returns:
            ``count`` micro-batches, the same whenever they are asked for. Each has a seed of its
            own; the run's seed + epoch * 1000 + index + 1, where nobody else plans.
        """
        ...

    async def practise(self, batch: BatchSpec, skill: str, place: Place, index: int) -> Practice:
        """Play a micro-batch for analysts to read.

        Args:
            batch: One of `batches`.
            skill: The text that the agent is given.
            place: The step.
            index: The micro-batch's place in the step, from 0.
        """
        ...

    async def measure(
        self, skill: str, split: SplitName, draw: int = 0, *, phase: str
    ) -> list[EpisodeResult]:
        """Play a whole split once.

        Args:
            skill: The text that the agent is given.
            split: Its name; ``test`` is for evaluations only, a training opens it by `open_test`.
            draw: Which luck the tasks meet.
            phase: What the episodes are for.

        Returns:
            A result per task, in the split's order.
        """
        ...

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> Duel:
        """Set two skills against each other on val, for a gate to draw from.

        Equal texts and draws are played once, however many duels draw them.
        """
        ...

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Play train tasks under the previous epoch's skill and under this one's.

        Args:
            previous: The text that the epoch before ended with.
            skill: The text that this epoch ended with.
            epoch: From 2.

        Returns:
            The pairs, complete: nothing is left to do.
        """
        ...

    async def open_test(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Break the seal of the test split, once, and play it with every skill at once.

        Args:
            skills: Text by name; equal texts are played once.

        Returns:
            By name, a result per task, in the split's order.
        """
        ...

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Play the val tasks that were kept from every gate; arguments and results as above.

        Empty where none were kept.
        """
        ...

"""The update: rows with advantages become optimiser steps, on any backend."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from skillwright.core import ConfigError
from skillwright.core.seeds import derive_seed
from skillwright.policy.backend import (
    LossReport,
    PolicyBackend,
    Row,
    StepReport,
    check_reference,
)
from skillwright.policy.loss import GrpoLoss, GrpoObjective
from skillwright.policy.rows import by_episode

RowForm = Literal["steps", "trajectories"]


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """How a batch of rows is learnt from.

    Attributes:
        objective: The loss.
        learning_rate: Above 0.
        epochs: Passes over the rows, at least 1. From the second step on the rows are off-policy,
            and the clip fraction says how far.
        minibatch_rows: Rows per optimiser step, about: they are dealt out evenly, and none twice.
            ``None`` takes all in one step.
        rows: ``steps``: one row per turn. ``trajectories``: turns whose prompts go on where the
            last one ended are one row (token generators only).

    Raises:
        ConfigError: A number is out of its range.
    """

    objective: GrpoObjective = field(default_factory=GrpoObjective)
    learning_rate: float = 1e-6
    epochs: int = 1
    minibatch_rows: int | None = 128
    rows: RowForm = "steps"

    def __post_init__(self) -> None:
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate is {self.learning_rate}; set it above 0, like 1e-6")
        if self.epochs < 1:
            raise ConfigError(f"epochs is {self.epochs}; rows are learnt from at least once")
        if self.minibatch_rows is not None and self.minibatch_rows < 1:
            raise ConfigError(
                f"minibatch_rows is {self.minibatch_rows}; set at least 1, or leave it out to "
                "learn from all rows in one step"
            )


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update, or a cold start, did, step by step.

    Attributes:
        losses: One per optimiser step.
        steps: One per optimiser step.
    """

    losses: tuple[LossReport, ...] = ()
    steps: tuple[StepReport, ...] = ()

    @property
    def skipped_steps(self) -> int:
        """Steps that were left out because their gradient was not finite."""
        return sum(step.skipped for step in self.steps)

    def total(self) -> LossReport:
        """Return all steps' reports as one; its means run over all tokens, each epoch's anew."""
        return sum(self.losses, LossReport())


def update(
    backend: PolicyBackend,
    rows: Sequence[Row],
    settings: GrpoSettings,
    *,
    seed: int,
    learning_rate: float | None = None,
) -> UpdateReport:
    """Learn from rows that have advantages (`teach` gives them).

    Args:
        backend: The policy.
        rows: Step rows; those of one episode stand together, in order.
        settings: How.
        seed: Of the order in which rows are dealt out.
        learning_rate: Instead of the settings', where a schedule says so.

    Returns:
        What was done; nothing where there are no rows, or padding alone.

    Raises:
        ReferenceMissing: The loss has a KL term and the backend no reference.
    """
    if settings.objective.kl_weight > 0:
        check_reference(backend)
    useful = [row for row in rows if row.counts]
    whole = by_episode(useful) if settings.rows == "trajectories" else useful
    rate = settings.learning_rate if learning_rate is None else learning_rate
    losses, steps = [], []
    for epoch in range(settings.epochs):
        for batch in dealt(whole, settings.minibatch_rows, derive_seed("update", seed, epoch)):
            loss = GrpoLoss.over(batch, settings.objective)
            losses.append(backend.forward_backward(batch, loss))
            steps.append(backend.optim_step(rate))
    return UpdateReport(tuple(losses), tuple(steps))


def dealt(rows: Sequence[Row], size: int | None, seed: int) -> Iterator[list[Row]]:
    """Deal rows out into batches of about ``size``, shuffled.

    Each row is dealt once, and batches differ in size by at most one: a last batch of two rows
    would make a step as long as one of a hundred. Within a batch, rows keep their order.
    """
    if not rows:
        return
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    batches = 1 if size is None else max(1, round(len(rows) / size))
    for number in range(batches):
        yield [rows[index] for index in sorted(order[number::batches])]

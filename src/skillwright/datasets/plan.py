"""Which items a training epoch visits, in which order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

EPOCH_STRIDE = 1000


@dataclass(frozen=True, slots=True)
class PlannedBatch(Generic[T]):
    """One micro-batch: its seed, and its items in order."""

    seed: int
    items: tuple[T, ...]


def shuffled(values: Sequence[T], seed: int) -> list[T]:
    """Return the values in the order that a seed gives them."""
    order = list(values)
    random.Random(seed).shuffle(order)
    return order


def plan_epoch(
    items: Sequence[T], *, epoch: int, batches: int, batch_size: int, seed: int
) -> list[PlannedBatch[T]]:
    """Plan an epoch over the items, each once, in an order of its own.

    Micro-batches that would be empty at the end are refilled from a fresh shuffle.

    Args:
        items: The train items.
        epoch: From 1.
        batches: Micro-batches in the epoch.
        batch_size: Items per micro-batch; the last one that has items may be shorter.
        seed: The run's seed.
    """
    epoch_seed = seed + epoch * EPOCH_STRIDE
    order = shuffled(items, epoch_seed)
    planned = []
    for index in range(batches):
        batch_seed = epoch_seed + index + 1
        chosen = order[index * batch_size : (index + 1) * batch_size]
        chosen = chosen or shuffled(order, batch_seed)[:batch_size]
        planned.append(PlannedBatch(batch_seed, tuple(chosen)))
    return planned

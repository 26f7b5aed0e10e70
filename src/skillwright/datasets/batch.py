"""One batch, as the trainer asks an adapter for it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class BatchSpec:
    """One batch request that the trainer hands to an adapter.

    Source: SkillOpt (microsoft/SkillOpt), API reference; mutable and slotted, as there.

    Attributes:
        phase: ``train`` or ``eval``.
        split: The split's name as it was asked for, aliases included (``valid_seen``).
        seed: The seed of this batch.
        batch_size: Rows in the batch.
        payload: What the loader produced, e.g. a list of items.
        metadata: Whatever a loader wants to add.
    """

    phase: str
    split: str
    seed: int
    batch_size: int
    payload: object | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

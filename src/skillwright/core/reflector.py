"""Turns rollouts into proposed edits: the protocol behind `EnvAdapter.reflect`'s default."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """One call of `EnvAdapter.reflect`, as the default implementation hands it on.

    Attributes:
        results: Rows of `rollout`, as the adapter returned them.
        skill: The skill text that the rows were rolled out with.
        prediction_dir: Where ``<id>/conversation.json`` lies per row.
        seed: Shuffles rows into minibatches; ``None`` keeps the input order.
        step_buffer_context: What earlier steps tried, for the analysts.
        meta_skill_context: The optimiser's own memory, for the analysts.
        minibatch_size: Trajectories per analyst call.
        edit_budget: Edits that one analyst may propose.
        failure_only: Successes are not analysed.
        analyst_workers: Analyst calls in flight at once.
        patches_dir: Where each minibatch's answer is kept for people to read; ``None`` keeps none.
        prompts: Environment-specific analyst prompts by name (``analyst_error``,
            ``analyst_success``); an absent one means the generic prompt.
    """

    results: Sequence[dict[str, Any]]
    skill: str
    prediction_dir: Path
    seed: int | None = None
    step_buffer_context: str = ""
    meta_skill_context: str = ""
    minibatch_size: int = 8
    edit_budget: int = 4
    failure_only: bool = False
    analyst_workers: int = 16
    patches_dir: Path | None = None
    prompts: tuple[tuple[str, str], ...] = ()


class Reflector(Protocol):
    """Reads trajectories and proposes edits; provided by `textopt`, called by adapters."""

    def reflect(self, request: ReflectRequest) -> list[dict[str, Any] | None]:
        """Return raw patch payloads, in minibatch order; ``None`` for a dropped slot.

        Blocks; adapters call it from their own thread.
        """

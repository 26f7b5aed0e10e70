"""Policies as agents of the rollout engine, and the rows of their turns for training."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.core import (
    Act,
    ConfigError,
    ContractError,
    EpisodeResult,
    Message,
    Turn,
    TurnContext,
)
from skillwright.policy.backend import PolicyBackend, Row


@dataclass(frozen=True, slots=True)
class _Kept:
    prompt: tuple[Message, ...]
    row: Row


class KeptRows:
    """The rows of sampled turns, kept for training."""

    def __init__(self) -> None:
        self._kept: dict[int, list[_Kept]] = defaultdict(list)

    def keep(self, context: TurnContext, row: Row) -> None:
        """Keep the row of a turn."""
        self._kept[context.seed].append(_Kept(tuple(context.messages), row))

    def rows(self, result: EpisodeResult) -> tuple[Row, ...]:
        """Return the rows of an episode: one per turn, named after episode and task.

        Raises:
            ContractError: A turn was not sampled here since `forget`.
        """
        name = f"{result.task_id}#{result.spec.seed}"
        return tuple(
            replace(self._find(turn, name), episode=name, group=result.task_id, turn=turn.index)
            for turn in result.trajectory.turns
        )

    def forget(self) -> None:
        """Drop all rows."""
        self._kept.clear()

    def _find(self, turn: Turn, episode: str) -> Row:
        # Seeds have 31 bits, so two turns of a large batch may share one; prompts distinguish them.
        # The latest one counts, because a retried episode has equal seeds.
        for kept in reversed(self._kept.get(turn.seed, [])):
            if kept.prompt == turn.prompt and kept.row.token_ids == turn.act.token_ids:
                return kept.row
        raise ContractError(
            f"turn {turn.index} of episode {episode!r} was not sampled by this agent. Rows are "
            "kept from sampling to training and never made from text: play the episode again, "
            "without reusing stored results."
        )


@dataclass(eq=False)
class PolicyAgent(KeptRows):
    """An agent that samples from a policy, in lockstep batches; this blocks the event loop.

    Attributes:
        backend: The policy.
        temperature: At least 0; 0 takes the most likely action.
        remembers: Keep rows for a trainer; off for evaluation.

    Raises:
        ConfigError: The temperature is out of its range.
    """

    backend: PolicyBackend
    temperature: float = 1.0
    remembers: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; set it to 0 or above")
        super().__init__()

    @property
    def identity(self) -> str:
        """The backend's identity, which changes with its weights, and the temperature."""
        return f"{self.backend.identity} t={self.temperature:g}"

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Sample one action per context, in order.

        Raises:
            ContextOverflow: A prompt leaves no room for an answer; nothing was sampled.
        """
        sampled = self.backend.sample(contexts, temperature=self.temperature)
        if self.remembers:
            for context, one in zip(contexts, sampled, strict=True):
                self.keep(context, one.row)
        return [one.act for one in sampled]

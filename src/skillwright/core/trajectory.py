"""What happened in an episode, turn by turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from skillwright.core.agent import Act
from skillwright.core.chat import Message, Usage


class StopReason(StrEnum):
    """Why an episode ended."""

    DONE = "done"
    """The environment said so: solved, lost, or left."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached: a truncation, counted apart from a loss."""
    TIMEOUT = "timeout"
    """The episode's deadline passed."""
    CONTEXT = "context"
    """The prompt would not fit the agent's context window."""
    FAILURE = "failure"
    """A fault ended it; the episode has no reward."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and what came of it.

    Attributes:
        index: From 0.
        prompt: The messages that the agent was shown, exactly.
        observation: The environment's raw text, without what was added for the prompt.
        metadata: What the environment reported beside its text.
        messages: The environment's reply as it enters the next prompt.
        seed: The seed that the agent was given.
    """

    index: int
    prompt: tuple[Message, ...]
    act: Act
    observation: str
    reward: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An episode's turns.

    Attributes:
        opening: The environment's first raw text (the task statement stands in it).
        metadata: What the environment reported when it started.
    """

    opening: str
    turns: tuple[Turn, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """What the agent consumed over all turns."""
        total = Usage()
        for turn in self.turns:
            total = total + turn.act.usage
        return total

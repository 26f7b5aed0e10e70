"""Who acts in an environment: a chat model, a policy with weights, or an executor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skillwright.core.chat import Message, Usage


@dataclass(frozen=True, slots=True)
class TurnContext:
    """All that an agent may look at to choose its next action.

    Attributes:
        messages: The rendered prompt, exactly as it will be stored.
        seed: The luck of this turn; two agents given equal contexts answer equally.
        metadata: What the environment offers beside its text (``admissible_commands`` for
            policies that score commands). A chat agent does not read it.
        skill: The skill text by itself, which stands in ``messages`` too; an executor mounts it as
            files.
    """

    messages: Sequence[Message]
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    skill: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """What an agent did: text, and for policies the tokens that were sampled."""

    text: str
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish_reason: str = "stop"


class Agent(Protocol):
    """Answers a batch of contexts in their order."""

    @property
    def identity(self) -> str:
        """Name what acts, for records and rollout reuse."""
        ...

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Choose one action per context, in order.

        Raises:
            ModelError: The endpoint behind the agent failed; nothing was chosen for any context.
        """
        ...

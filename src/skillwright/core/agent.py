"""Who acts in an environment: a chat model, a policy with weights, or an executor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from skillwright.core.chat import Completion, Message, ToolCall, Usage
from skillwright.core.tool_calls import tagged

# How models that are served without a parser for their calls write them.
_CALL_MARKS: Final = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=")


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
        tools: What may be called natively, in OpenAI's form; none where an action is a text.
    """

    messages: Sequence[Message]
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    skill: str = ""
    tools: Sequence[dict[str, Any]] = ()


class Lapse(StrEnum):
    """How an answer ended that cannot be what the model meant; a turn's finish reason."""

    CUT = "length"
    """The bound on its length fell into it."""
    NATIVE_CALLS = "tool_calls"
    """It called tools natively, which an environment that reads text does not see."""
    WRITTEN_CALLS = "written_calls"
    """It wrote a call as text, which an environment that takes native calls does not see."""
    REASONING = "reasoning"
    """It holds reasoning and no text."""
    EMPTY = "empty"
    """It holds nothing."""


@dataclass(frozen=True, slots=True)
class Act:
    """What an agent did: text, and for policies the tokens that were sampled.

    Attributes:
        text: What it said; its action, where it was offered no tools.
        finish_reason: ``stop``, ``content_filter``, ``other``, or a `Lapse`.
        tool_calls: What it called natively, as it wrote it; none where it was offered no tools.
        native: `Completion.native` of an answer that was offered tools.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    native: Mapping[str, Any] | None = field(default=None, hash=False)

    @classmethod
    def of(cls, answer: Completion, *, offered_tools: bool = False) -> Self:
        """Return the act of an agent whose answer is its action."""
        if not offered_tools:
            return cls(answer.text, answer.usage, finish_reason=_ending(answer))
        return cls(
            answer.text,
            answer.usage,
            finish_reason=_ending_with_tools(answer),
            tool_calls=answer.tool_calls,
            native=answer.native,
        )

    @property
    def written(self) -> str:
        """All that was done, as one text; native calls stand in ``<tool_call>`` tags."""
        return tagged(self.text, self.tool_calls) if self.tool_calls else self.text


def _ending_with_tools(answer: Completion) -> str:
    if not answer.tool_calls and any(mark in answer.text for mark in _CALL_MARKS):
        return Lapse.WRITTEN_CALLS.value
    if answer.tool_calls and answer.finish_reason != Lapse.CUT:
        return "stop"
    return _ending(replace(answer, tool_calls=()))


def _ending(answer: Completion) -> str:
    if answer.tool_calls:
        return Lapse.NATIVE_CALLS.value
    if answer.finish_reason == Lapse.CUT:
        return Lapse.CUT.value
    if not answer.text.strip():
        return (Lapse.REASONING if answer.reasoning.strip() else Lapse.EMPTY).value
    # Some servers end with "tool_calls" where the text is all that there is.
    return "stop" if answer.finish_reason == Lapse.NATIVE_CALLS else answer.finish_reason


class Agent(Protocol):
    """Answers a batch of contexts in their order."""

    @property
    def identity(self) -> str:
        """Name what acts, for records and rollout reuse."""

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Choose one action per context, in order.

        Raises:
            ModelError: The endpoint behind the agent failed; nothing was chosen for any context.
        """

"""The agent protocol, and actions: text in tags, or native tool calls."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from skillwright.core.call_json import (
    MAX_CALL_CHARS,
    STRICT_DECODER,
    Unreadable,
    read_arguments,
    too_deep,
)
from skillwright.core.calls import WRITTEN, read_calls
from skillwright.core.chat import Completion, Message, ToolCall, Usage
from skillwright.core.jsonio import dumps
from skillwright.core.marks import spoken

# A strict endpoint refuses a whole conversation for one tool call in it with a missing or repeated
# id, a blank in its name, or arguments that are no JSON object. The record of a turn keeps calls as
# the model wrote them; later requests carry the result of `sendable`.


_ID: Final = re.compile(r"[!-~]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME: Final = 64
_SHOWN_CHARS: Final = 500


def sendable(calls: Sequence[ToolCall], earlier: Iterable[Message]) -> tuple[ToolCall, ...]:
    """Return calls in a form that every endpoint accepts; well-formed calls stay unchanged.

    Args:
        calls: The calls of one answer.
        earlier: The conversation before it; its call ids are not used again.
    """
    taken = {call["id"] for message in earlier for call in message.get("tool_calls") or ()}
    made = []
    for call in calls:
        is_free = _ID.fullmatch(call.id) and call.id not in taken
        call_id = call.id if is_free else _free_id(taken, call.id.startswith(WRITTEN))
        taken.add(call_id)
        made.append(ToolCall(call_id, _name(call.name), _arguments(call.arguments)))
    return tuple(made)


def with_ids_of(calls: Sequence[ToolCall], sent: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return calls as the model wrote them, with the ids that were sent."""
    return tuple(replace(call, id=one.id) for call, one in zip(calls, sent, strict=True))


def tagged(text: str, calls: Sequence[ToolCall]) -> str:
    """Join an answer's text and its calls, each in ``<tool_call>`` tags, into one text."""
    written = [f"<tool_call>{_written(call)}</tool_call>" for call in calls]
    return "\n".join(part for part in (text, *written) if part)


def untagged(action: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a text written by `tagged` into text and calls; a malformed call has no name."""
    text, *blocks = action.split("<tool_call>")
    calls = []
    for number, block in enumerate(blocks):
        written, _, rest = block.partition("</tool_call>")
        text += rest
        calls.append(_read(f"call_{number}", written))
    return text.strip(), tuple(calls)


def _read(call_id: str, written: str) -> ToolCall:
    read = _object(written) or {}
    name, arguments = read.get("name"), read.get("arguments", {})
    if not isinstance(name, str):
        return ToolCall(call_id, "", written)
    return ToolCall(call_id, name, arguments if isinstance(arguments, str) else dumps(arguments))


def _written(call: ToolCall) -> str:
    read = _object(call.arguments)
    return dumps({"name": call.name, "arguments": call.arguments if read is None else read})


def _free_id(taken: set[str], was_written: bool) -> str:
    number, begin = len(taken), WRITTEN if was_written else "call_"
    while f"{begin}{number}" in taken:
        number += 1
    return f"{begin}{number}"


def _name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name[: 4 * _LONGEST_NAME])[:_LONGEST_NAME] or "unnamed"


def _arguments(written: str) -> str:
    if _object(written) is not None:
        return written
    try:
        return dumps(read_arguments(written))
    except Unreadable:
        return dumps({"arguments": written[:_SHOWN_CHARS]})


def _object(written: str) -> dict[str, Any] | None:
    if len(written) > MAX_CALL_CHARS:
        return None
    try:
        value = STRICT_DECODER.decode(written)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not too_deep(value) else None


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The input of an agent's turn.

    Attributes:
        messages: The rendered prompt, exactly as it will be stored.
        seed: Seed of this turn; agents give equal answers to equal contexts.
        metadata: The environment's metadata (``admissible_commands`` for policies that score
            commands). A chat agent does not read it.
        skill: The skill text, which is in ``messages`` too; an executor mounts it as files.
        tools: Tools for native calls, in OpenAI's format; empty where an action is text.
        turn: Number of the turn in its episode, from 0.
    """

    messages: Sequence[Message]
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    skill: str = ""
    tools: Sequence[dict[str, Any]] = ()
    turn: int = 0


class Lapse(StrEnum):
    """Finish reason of an answer that was not usable as it was written."""

    CUT = "length"
    """Cut off at the token limit."""
    NATIVE_CALLS = "tool_calls"
    """Native tool calls, where the environment reads text."""
    UNREAD_CALLS = "unread_calls"
    """Tool calls written as text that cannot be read, where the environment reads native calls."""
    WRITTEN_CALLS = "written_calls"
    """Tool calls written as text, which were read as native calls."""
    MARKS_CUT = "marks_cut"
    """An answer without the marks of a chat template, which were cut."""
    MARKS_LEFT = "marks_left"
    """An answer with marks of a chat template, which may be part of it."""
    REASONING = "reasoning"
    """Reasoning without text."""
    EMPTY = "empty"
    """An empty answer."""

    @property
    def is_read(self) -> bool:
        """Whether the answer was usable all the same."""
        return self in (Lapse.WRITTEN_CALLS, Lapse.MARKS_CUT, Lapse.MARKS_LEFT)


@dataclass(frozen=True, slots=True)
class Act:
    """An agent's turn: text, native tool calls, and the sampled tokens of a policy.

    Attributes:
        text: The text; without tools, it is the action.
        finish_reason: ``stop``, ``content_filter``, ``other``, or a `Lapse`.
        tool_calls: Native calls as the model wrote them; empty if no tools were offered.
        native: `Completion.native`, if tools were offered.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    native: Mapping[str, Any] | None = field(default=None, hash=False)

    @classmethod
    def of(
        cls,
        answer: Completion,
        *,
        offered_tools: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Convert a model's answer into a turn.

        Args:
            answer: The answer.
            offered_tools: Whether the request offered tools; then calls in the text are read.
            tools: Those tools, in OpenAI's form.
        """
        if not offered_tools:
            return cls(answer.text, answer.usage, finish_reason=_ending(answer))
        ending, text, calls = (
            _ending(replace(answer, tool_calls=())),
            answer.text,
            answer.tool_calls,
        )
        if calls:
            ending = "stop" if answer.finish_reason != Lapse.CUT else ending
        elif (found := read_calls(spoken(text), tools)).is_readable:
            ending, text, calls = Lapse.WRITTEN_CALLS.value, found.said, found.native()
        elif found.calls and ending != Lapse.CUT:
            ending = Lapse.UNREAD_CALLS.value
        return cls(text, answer.usage, finish_reason=ending, tool_calls=calls, native=answer.native)

    @property
    def written(self) -> str:
        """The text and the native calls in ``<tool_call>`` tags, as one text."""
        return tagged(self.text, self.tool_calls) if self.tool_calls else self.text


def _ending(answer: Completion) -> str:
    if answer.tool_calls:
        return Lapse.NATIVE_CALLS.value
    if answer.finish_reason == Lapse.CUT:
        return Lapse.CUT.value
    if not answer.text.strip():
        return (Lapse.REASONING if answer.reasoning.strip() else Lapse.EMPTY).value
    # Some servers end with "tool_calls" where the text is all that there is.
    if answer.finish_reason not in ("stop", Lapse.NATIVE_CALLS):
        return answer.finish_reason
    return f"marks_{answer.marks}" if answer.marks else "stop"


class Agent(Protocol):
    """Answers a batch of contexts in their order."""

    @property
    def identity(self) -> str:
        """Identify the agent, for records and rollout reuse."""

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Choose one action per context, in order.

        Raises:
            ModelError: The agent's endpoint failed; no action was chosen for any context.
        """


# The innermost tag counts: in "<action><action>look</action>" the action is "look".
ACTION_TAG: Final = re.compile(
    r"<action>((?:(?!</?action>).)*)</action>", re.DOTALL | re.IGNORECASE
)
"""Matches a complete tag; group 1 is its content."""


def tagged_action(answer: str) -> str | None:
    """Return the content of the last complete ``<action>`` tag, or ``None`` without one."""
    found = ACTION_TAG.findall(answer)
    return found[-1].strip() if found else None


def action_in(answer: str) -> str:
    """Return the content of the last complete ``<action>`` tag, or else the whole answer.

    Source: the reply protocol of SkillRL and of SkillOpt's ALFWorld (reasoning, then one tag).
    """
    tagged = tagged_action(answer)
    return answer.strip() if tagged is None else tagged

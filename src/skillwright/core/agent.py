"""Who acts in an environment, and what an action is: text in tags, or native tool calls."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from skillwright.core.calls import (
    MAX_CALL_CHARS,
    STRICT_DECODER,
    WRITTEN,
    Unreadable,
    read_arguments,
    read_calls,
    too_deep,
)
from skillwright.core.chat import Completion, Message, ToolCall, Usage
from skillwright.core.jsonio import dumps
from skillwright.core.marks import spoken

# Native tool calls in a conversation: as a model wrote them, and as any endpoint takes them back.
#
# A strict endpoint refuses a whole conversation for one call in it whose id is missing or there
# twice, whose name has a blank in it, or whose arguments are no JSON object. What a model wrote is
# kept as it is in the record of its turn; later requests carry what `sendable` makes of it.


_ID: Final = re.compile(r"[!-~]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME: Final = 64
_SHOWN_CHARS: Final = 500


def sendable(calls: Sequence[ToolCall], earlier: Iterable[Message]) -> tuple[ToolCall, ...]:
    """Return calls in a form that every endpoint takes; what is well-formed stays as it is.

    Args:
        calls: Those of one answer.
        earlier: The conversation before it, whose ids are taken.
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
    """Return calls as the model wrote them, under the ids that their results have to name."""
    return tuple(replace(call, id=one.id) for call, one in zip(calls, sent, strict=True))


def tagged(text: str, calls: Sequence[ToolCall]) -> str:
    """Write an answer down as one text: what was said, and each call in ``<tool_call>`` tags."""
    written = [f"<tool_call>{_written(call)}</tool_call>" for call in calls]
    return "\n".join(part for part in (text, *written) if part)


def untagged(action: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Read what `tagged` wrote: what was said, and the calls; a block that is none has no name."""
    said, *blocks = action.split("<tool_call>")
    calls = []
    for number, block in enumerate(blocks):
        written, _, behind = block.partition("</tool_call>")
        said += behind
        calls.append(_read(f"call_{number}", written))
    return said.strip(), tuple(calls)


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
    """All that an agent may look at to choose its next action.

    Attributes:
        messages: The rendered prompt, exactly as it will be stored.
        seed: The randomness of this turn; two agents given equal contexts answer equally.
        metadata: What the environment offers besides its text (``admissible_commands`` for
            policies that score commands). A chat agent does not read it.
        skill: The skill text by itself, which is in ``messages`` too; an executor mounts it as
            files.
        tools: What may be called natively, in OpenAI's form; none where an action is a text.
        turn: Which turn of its episode this is, from 0.
    """

    messages: Sequence[Message]
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    skill: str = ""
    tools: Sequence[dict[str, Any]] = ()
    turn: int = 0


class Lapse(StrEnum):
    """How an answer ended that is not as the model meant it; a turn's finish reason."""

    CUT = "length"
    """The bound on its length fell into it."""
    NATIVE_CALLS = "tool_calls"
    """It called tools natively, which an environment that reads text does not see."""
    UNREAD_CALLS = "unread_calls"
    """It wrote a call as text that cannot be read, to an environment that takes native calls."""
    WRITTEN_CALLS = "written_calls"
    """It wrote calls as text, which were read and carried out; no fault of the answer."""
    MARKS_CUT = "marks_cut"
    """Marks of a chat template around it were cut; no fault of the answer."""
    MARKS_LEFT = "marks_left"
    """It holds marks of a chat template that may be part of the answer, and so were left."""
    REASONING = "reasoning"
    """It holds reasoning and no text."""
    EMPTY = "empty"
    """It holds nothing."""

    @property
    def is_read(self) -> bool:
        """Whether the answer says what it was meant to say all the same."""
        return self in (Lapse.WRITTEN_CALLS, Lapse.MARKS_CUT, Lapse.MARKS_LEFT)


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
    def of(
        cls,
        answer: Completion,
        *,
        offered_tools: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return the turn of an agent whose answer is its action.

        Args:
            answer: What the model answered.
            offered_tools: Whether it was offered tools; calls that it wrote as text are read then.
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
        """All that was done, as one text; native calls are in ``<tool_call>`` tags."""
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
        """Name what acts, for records and rollout reuse."""

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Choose one action per context, in order.

        Raises:
            ModelError: The endpoint behind the agent failed; nothing was chosen for any context.
        """


# An inner tag closes itself: of "<action><action>look</action>" the action is "look".
ACTION_TAG: Final = re.compile(
    r"<action>((?:(?!</?action>).)*)</action>", re.DOTALL | re.IGNORECASE
)
"""A complete tag; its group is what is in it."""


def tagged_action(answer: str) -> str | None:
    """Return what is in the last complete ``<action>`` tag, or ``None`` without one."""
    found = ACTION_TAG.findall(answer)
    return found[-1].strip() if found else None


def action_in(answer: str) -> str:
    """Return what is in the last complete ``<action>`` tag, or else all of it.

    Source: the reply protocol of SkillRL and of SkillOpt's ALFWorld (reasoning, then one tag).
    """
    tagged = tagged_action(answer)
    return answer.strip() if tagged is None else tagged

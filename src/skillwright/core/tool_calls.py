"""Native tool calls in a conversation: as a model wrote them, and as any endpoint takes them back.

A strict endpoint refuses a whole conversation for one call in it whose id is missing or there
twice, whose name has a blank in it, or whose arguments are no JSON object. What a model wrote is
kept as it is in the record of its turn; later requests carry what `sendable` makes of it.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from skillwright.core.chat import Message, ToolCall
from skillwright.core.jsonio import dumps

MAX_CALL_CHARS: Final = 65_536
"""A call with a longer name and arguments is not carried out."""
MAX_DEPTH: Final = 32
"""Nor is one whose arguments are nested deeper."""

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
        call_id = call.id if _ID.fullmatch(call.id) and call.id not in taken else _free_id(taken)
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


def too_deep(value: Any) -> bool:
    """Tell whether a JSON value is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _members(outer)]
        if not level:
            return False
    return True


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [one for one in value.values() if isinstance(one, dict | list)]
    if isinstance(value, list):
        return [one for one in value if isinstance(one, dict | list)]
    return []


def _written(call: ToolCall) -> str:
    read = _object(call.arguments)
    return dumps({"name": call.name, "arguments": call.arguments if read is None else read})


def _free_id(taken: set[str]) -> str:
    number = len(taken)
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def _name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    return _NOT_IN_NAMES.sub("_", name[: 4 * _LONGEST_NAME])[:_LONGEST_NAME] or "unnamed"


def _arguments(written: str) -> str:
    if written.strip() in ("", "null"):
        return "{}"
    return written if _object(written) is not None else dumps({"arguments": written[:_SHOWN_CHARS]})


def _object(written: str) -> dict[str, Any] | None:
    if len(written) > MAX_CALL_CHARS:
        return None
    try:
        value = STRICT_DECODER.decode(written)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and not too_deep(value) else None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:80]} is too large a number")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


# Built once: making a decoder takes longer than decoding a call.
STRICT_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
"""Reads what a model wrote as JSON; NaN and numbers without end are none."""

"""Parse an agent's turn as a tool call, a message to the user, or an error.

Parsing never raises and takes time linear in the length of the text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import ToolCall
from skillwright.core.call_json import MAX_CALL_CHARS as MAX_CALL_CHARS
from skillwright.core.call_json import MAX_DEPTH as MAX_DEPTH
from skillwright.core.call_json import Unreadable, is_strict, read_arguments
from skillwright.core.calls import WRITTEN, WrittenCall, WrittenCalls, read_calls
from skillwright.core.marks import spoken as visible_text
from skillwright.worlds.tau_bench.prompts import prompt
from skillwright.worlds.tau_bench.tau_core.store import RESPOND

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"

EMPTY: Final = "Error: the message is empty. Call a tool, or write to the user."
_IN_TAGS: Final = f"a call stands between {OPEN} and {CLOSE}"
_IN_TEXT: Final = "tools are called natively, and not in the text"
_SHOWN_CHARS: Final = 80
_RESPOND: Final = {"function": {"name": RESPOND}}
"""tau-bench's action that writes to the user; its ReAct and act agents call it as a tool."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    name: str  # need not exist
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mixed: bool = False  # there was text next to the call; it is dropped
    extra_calls: int = 0  # number of further calls in the turn, which are not run
    suspect: bool = field(default=False, compare=False)  # it is not written as it was asked for


@dataclass(frozen=True, slots=True)
class Speech:
    """A message to the user."""

    text: str  # never blank
    suspect: bool = False  # it looks like a tool call


@dataclass(frozen=True, slots=True)
class Misfit:
    """A turn that cannot be understood."""

    error: str  # the message to the agent
    is_call: bool = True  # it was meant as a tool call
    mixed: bool = False  # there was text next to the call
    extra_calls: int = 0  # number of further calls in the turn


def parse(
    action: str, mode: str = "default", tools: Sequence[Mapping[str, Any]] = ()
) -> Call | Speech | Misfit:
    """Parse a turn of an agent that writes its calls; ``tools`` are those of the system prompt."""
    found = read_calls(visible_text(action), (*tools, _RESPOND))
    return _first(found, mode, _IN_TAGS) if found.calls else _speech(found.said, mode)


def parse_native(
    said: str, calls: Sequence[ToolCall], mode: str, tools: Sequence[Mapping[str, Any]] = ()
) -> Call | Speech | Misfit:
    """Parse a turn of an agent with native tools.

    Without a call the text is a message to the user, unless a call is written in it; next to a
    call it is dropped. The first of several calls counts, as in tau-bench's own agent.
    """
    visible = visible_text(said)
    if calls:
        others = (WrittenCall(),) * (len(calls) - 1)
        return _first(WrittenCalls(visible, (_read(calls[0]), *others)), mode, _IN_TEXT)
    found = read_calls(visible, (*tools, _RESPOND))
    if not found.calls:
        return _speech(visible, mode)
    if mode == "strict":
        return _refusal(_IN_TEXT)
    return _first(found, mode, _IN_TEXT)


def _read(call: ToolCall) -> WrittenCall:
    problem = ""  # tau-bench's own agent runs a call without a name too
    if len(call.name) + len(call.arguments) > MAX_CALL_CHARS:
        problem = f"it is longer than {MAX_CALL_CHARS} characters"
    try:
        arguments = {} if problem else read_arguments(call.arguments)
    except Unreadable as error:
        problem = str(error)
    if problem:
        return WrittenCall(problem=problem)
    is_asked = not call.id.startswith(WRITTEN) and is_strict(call.arguments or "{}")
    return WrittenCall(call.name, arguments, as_asked=is_asked)


def _first(found: WrittenCalls, mode: str, asked: str) -> Call | Misfit:
    """Return the first call of a turn, or why it is not run."""
    first, extra_calls, mixed = found.calls[0], len(found.calls) - 1, bool(found.said)
    reason = first.problem
    if mode == "strict" and not reason:
        if extra_calls or mixed:
            reason = "one call per turn" if extra_calls else "no text beside a call"
        elif not first.as_asked:
            reason = asked
    if reason:
        return _refusal(reason, mixed=mixed, extra_calls=extra_calls)
    return Call(first.name, first.arguments, mixed, extra_calls, not first.as_asked)


def _speech(visible: str, mode: str) -> Speech | Misfit:
    if not visible:
        return Misfit(EMPTY, is_call=False)
    suspect = _looks_like_call(visible)
    if suspect and mode == "strict":
        return _refusal(_IN_TAGS)
    return Speech(visible, suspect)


def utf8_safe(text: str) -> str:
    """Replace lone surrogates, which servers, logs and tokenizers refuse."""
    if text.isascii():
        return text
    # UTF-16 joins pairs and leaves only lone surrogates to be replaced.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refusal(reason: str, *, mixed: bool = False, extra_calls: int = 0) -> Misfit:
    error = f"Error: could not parse tool call ({utf8_safe(reason[:_SHOWN_CHARS])})"
    return Misfit(error, mixed=mixed, extra_calls=extra_calls)


def _looks_like_call(text: str) -> bool:
    """Recognize JSON with the keys of a call that names no tool."""
    begins = text.lstrip("`json \r\n").startswith("{")
    return begins and '"name"' in text and '"arguments"' in text


# The system prompt: policy, rules, tools, and answer format. The preset ``tau-bench`` is the policy
# alone, as tau-bench's own tool-calling agent reads it.


def system_prompt(
    policy: str,
    rules: Sequence[str],
    schemas: Sequence[Mapping[str, Any]],
    *,
    tools: str = "tags",
    preset: str = "skillwright",
) -> str:
    """Return the system prompt: the policy, short rules, and in tags the tools."""
    if preset == "tau-bench":
        return policy
    listed = "".join(f"- {rule}\n" for rule in rules)
    parts = {"policy": f"{policy.strip()}\n", "rules": listed and f"\n# Rules\n\n{listed}"}
    if tools == "native":
        return prompt("agent_native", **parts)
    return prompt("agent_tags", **parts, tools=json.dumps(schemas, indent=1))

"""Parse an agent's turn as a tool call, a message to the user, or an error.

Parsing never raises and takes time linear in the length of the text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import ToolCall
from skillwright.core.agent import MAX_CALL_CHARS, MAX_DEPTH, STRICT_DECODER, too_deep
from skillwright.worlds.tau_bench.tau_core.store import Store

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
THINK: Final = "<think>"
END_THINK: Final = "</think>"

EMPTY: Final = "Error: the message is empty. Call a tool, or write to the user."
_SHOWN_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    name: str  # need not exist
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mixed: bool = False  # there was text next to the call; it is dropped
    extra_calls: int = 0  # number of further calls in the turn, which are not run


@dataclass(frozen=True, slots=True)
class Speech:
    """A message to the user."""

    text: str  # never blank
    suspect: bool = False  # it looks like a tool call without its tags


@dataclass(frozen=True, slots=True)
class Misfit:
    """A turn that cannot be understood."""

    error: str  # the message to the agent
    is_call: bool = True  # it was meant as a tool call
    mixed: bool = False  # there was text next to the call
    extra_calls: int = 0  # number of further calls in the turn


class _Unreadable(Exception):
    """No call can be read; the message says why."""


def parse(action: str, mode: str = "default") -> Call | Speech | Misfit:
    """Parse a turn."""
    visible = visible_text(action)
    start = visible.find(OPEN)
    if start < 0:
        asked = f"a call stands between {OPEN} and {CLOSE}"
        return _speech(visible, mode, is_tagged=CLOSE in visible, asked=asked)
    before, after = visible[:start], visible[start + len(OPEN) :]
    try:
        end, call = _first_object(after)
    except _Unreadable as error:
        return _refusal(str(error))
    beside, extra_calls = _beside(after[end:])
    mixed = bool(before.strip() or beside.strip())
    return _call(lambda: _named(call, mode), mode, mixed, extra_calls)


def parse_native(said: str, calls: Sequence[ToolCall], mode: str) -> Call | Speech | Misfit:
    """Parse a turn of an agent with native tools.

    Without a call the text is a message to the user; next to a call it is dropped. The first of
    several calls counts, as in tau-bench's own agent.
    """
    visible = visible_text(said)
    if calls:
        return _call(lambda: _named_natively(calls[0]), mode, bool(visible), len(calls) - 1)
    is_tagged = OPEN in visible or CLOSE in visible
    return _speech(visible, mode, is_tagged, asked="tools are called natively, and not in the text")


def _speech(visible: str, mode: str, is_tagged: bool, asked: str) -> Speech | Misfit:
    if not visible:
        return Misfit(EMPTY, is_call=False)
    suspect = is_tagged or _looks_like_call(visible)
    if suspect and mode == "strict":
        return _refusal(asked)
    return Speech(visible, suspect)


def _call(
    read: Callable[[], tuple[str, Mapping[str, Any]]], mode: str, mixed: bool, extra_calls: int
) -> Call | Misfit:
    if mode == "strict" and (mixed or extra_calls):
        asked = "one call per turn" if extra_calls else "no text beside a call"
        return _refusal(asked, mixed=mixed, extra_calls=extra_calls)
    try:
        name, arguments = read()
    except _Unreadable as error:
        return _refusal(str(error), mixed=mixed, extra_calls=extra_calls)
    return Call(name, arguments, mixed, extra_calls)


def visible_text(action: str) -> str:
    """Return the text without reasoning; blank if the reasoning has no end."""
    kept: list[str] = []
    behind = 0
    while (start := action.find(THINK, behind)) >= 0:
        end = action.find(END_THINK, start)
        if end < 0:
            # Text that was cut inside the reasoning has no message yet.
            return ""
        kept.append(action[behind:start])
        behind = end + len(END_THINK)
    kept.append(action[behind:])
    # An end without a start: chat templates write the start into the prompt.
    return "".join(kept).rpartition(END_THINK)[2].strip()


def utf8_safe(text: str) -> str:
    """Replace lone surrogates, which servers, logs and tokenizers refuse."""
    if text.isascii():
        return text
    # UTF-16 joins pairs and leaves only lone surrogates to be replaced.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _first_object(after: str) -> tuple[int, Any]:
    """Read the JSON after an opening tag; return the position after it, and the value."""
    # The end of the object ends the call, because a text in it may contain the closing tag. At the
    # end of the turn the tag may be missing, since servers stop there.
    text = after.lstrip()
    offset = len(after) - len(text)
    if len(text) > MAX_CALL_CHARS:
        close = text.find(CLOSE)
        if not 0 <= close <= MAX_CALL_CHARS:
            raise _Unreadable(f"it is longer than {MAX_CALL_CHARS} characters")
    try:
        value, size = STRICT_DECODER.raw_decode(text[:MAX_CALL_CHARS])
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise _Unreadable(reason) from error
    rest = text[size:].lstrip()
    if rest and not rest.startswith(CLOSE):
        raise _Unreadable(f"there is more before {CLOSE}")
    if too_deep(value):
        raise _Unreadable(f"it is nested deeper than {MAX_DEPTH} levels")
    behind = len(text) - len(rest) + (len(CLOSE) if rest else 0)
    return offset + behind, value


def _beside(rest: str) -> tuple[str, int]:
    """Return the text outside further calls, and the number of those calls."""
    first, *blocks = rest.split(OPEN)
    return "".join([first, *(block.partition(CLOSE)[2] for block in blocks)]), len(blocks)


def _named(call: Any, mode: str) -> tuple[str, Mapping[str, Any]]:
    """Return name and arguments of a call written as JSON."""
    if not isinstance(call, dict):
        raise _Unreadable("it is not a JSON object")
    if mode == "lenient" and isinstance(call.get("function"), dict):
        call = call["function"]
    name = call.get("name")
    if not isinstance(name, str) or not name:
        raise _Unreadable("it has no name")
    key = next((key for key in ("parameters", "args") if key in call), "arguments")
    if key != "arguments" and "arguments" not in call:
        if mode != "lenient":
            raise _Unreadable(f"its arguments are called {key!r}, not 'arguments'")
        call = {"arguments": call[key]}
    return name, _arguments(call.get("arguments"))


def _named_natively(call: ToolCall) -> tuple[str, Mapping[str, Any]]:
    written = call.arguments.strip()
    if len(call.name) + len(call.arguments) > MAX_CALL_CHARS:
        raise _Unreadable(f"it is longer than {MAX_CALL_CHARS} characters")
    if not call.name:
        raise _Unreadable("it has no name")
    return call.name, _arguments(None if written == "null" else written or None)


def _arguments(arguments: Any) -> Mapping[str, Any]:
    if arguments is None:
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = STRICT_DECODER.decode(arguments)
        except (ValueError, RecursionError) as error:
            raise _Unreadable(f"its arguments are a string that is no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise _Unreadable("its arguments are not a JSON object")
    if too_deep(arguments):
        raise _Unreadable(f"its arguments are nested deeper than {MAX_DEPTH} levels")
    return arguments


def _refusal(reason: str, *, mixed: bool = False, extra_calls: int = 0) -> Misfit:
    error = f"Error: could not parse tool call ({utf8_safe(reason[:_SHOWN_CHARS])})"
    return Misfit(error, mixed=mixed, extra_calls=extra_calls)


def _looks_like_call(text: str) -> bool:
    """Recognize a call without tags: JSON with a name and arguments, bare or in a fence."""
    body = text
    if body.startswith("```"):
        body = body.partition("\n")[2].rpartition("```")[0].strip()
    if not (body.startswith("{") and body.endswith("}") and len(body) <= MAX_CALL_CHARS):
        return False
    try:
        value = STRICT_DECODER.decode(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "name" in value and "arguments" in value


# The system prompt: policy, rules, tools, and answer format. The preset ``tau-bench`` is the policy
# alone, as tau-bench's own tool-calling agent reads it.


_PROMPT: Final = """\
{policy}
{rules}
# Tools

These are the tools, each with the JSON Schema of its arguments:

{tools}

# How to answer

In every turn do exactly one of two things.

To call a tool, write nothing but

{open}{{"name": "<name of the tool>", "arguments": {{<its arguments as JSON>}}}}{close}

and the next message is its result. One call per turn; text beside it is not shown to anyone.

To speak to the user, write plain text without any tag, and the next message is the user's reply.
"""


_NATIVE: Final = """\
{policy}
{rules}
# How to answer

In every turn do exactly one of two things: call one tool, or write to the user. What you write
beside a call is not shown to anyone, and of several calls only the first is run.
"""


def system_prompt(
    store: Store, *, show_rules: bool, tools: str = "tags", preset: str = "skillwright"
) -> str:
    """Return the system prompt of a data set."""
    if preset == "tau-bench":
        return store.wiki
    rules = "\n# Rules\n\n" + "".join(f"- {rule}\n" for rule in store.rules)
    policy, rules = store.wiki.strip() + "\n", rules if show_rules and store.rules else ""
    if tools == "native":
        return _NATIVE.format(policy=policy, rules=rules)
    return _PROMPT.format(
        policy=policy,
        rules=rules,
        tools=json.dumps(store.tool_schemas, indent=1),
        open=OPEN,
        close=CLOSE,
    )

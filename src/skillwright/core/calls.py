"""Read the tool calls that models write into their text, and the arguments of native calls.

A server with the parser of its model turns them into native calls. Without one they arrive as text,
in the notation that the model was trained with. `read_calls` reads a call that has one meaning,
and says why where it has none. It never raises, and takes time linear in the length of the text.

The notations: Hermes and Qwen (JSON in ``<tool_call>``); Qwen3-Coder, Llama, MiniMax and DeepSeek
V3.2 (``<function=...>``, ``<invoke name=...>``); GLM and LongCat (``<arg_key>``); Mistral
(``[TOOL_CALLS]``); Granite and Phi (``<|tool_call|>``, ``functools``); Llama 3 and 4
(``<|python_tag|>``, Python); DeepSeek (``tool▁calls▁begin``); Kimi
(``<|tool_calls_section_begin|>``); gpt-oss (``to=functions.name``); Command
(``<|START_ACTION|>``); Gemma (``tool_code``, ``call:name{...}``); Functionary (``>>>name``);
Apertus (``{name: {...}}``); ReAct and tau-bench's prompts (``Action:``); and JSON alone.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core.call_json import (
    MAX_CALL_CHARS,
    STRAY,
    STRICT_DECODER,
    Unreadable,
    end_of,
    is_strict,
    json_at,
    read_arguments,
)
from skillwright.core.chat import ToolCall
from skillwright.core.jsonio import dumps

WRITTEN: Final = "written_"
"""Beginning of the ids of calls that were read out of a text."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call in a text.

    Attributes:
        name: Name of the tool, which need not exist; "" for a call that cannot be read.
        problem: Why it cannot be read; "" if it can.
        as_asked: Whether it is ``{"name": ..., "arguments": ...}`` between ``<tool_call>`` tags.
    """

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    as_asked: bool = False


@dataclass(frozen=True, slots=True)
class WrittenCalls:
    """The calls in a text, in order, and the text outside of them."""

    said: str
    calls: tuple[WrittenCall, ...] = ()

    @property
    def is_readable(self) -> bool:
        """Whether there are calls, and all have a meaning."""
        return bool(self.calls) and not any(call.problem for call in self.calls)

    def native(self) -> tuple[ToolCall, ...]:
        """Return the calls as native ones."""
        return tuple(
            ToolCall(f"{WRITTEN}{number}", call.name, dumps(call.arguments))
            for number, call in enumerate(self.calls)
        )


_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_NAME = r"[^\W\d][\w.\-/]{0,127}"
_XML = r"<(?:\uff5cDSML\uff5c)?(?:function|invoke|tool)(?:_call|_use)?(?:\s+name)?\s*=\s*[\"']?"
_END_XML = r"</(?:\uff5cDSML\uff5c)?(?:function|invoke)>"
_PARAMETER = r"(?:\uff5cDSML\uff5c)?(?:parameter|param)"
_TO = rf"to=(?:functions\.)?(?={_NAME}[^{{}}]{{0,80}}<\|message\|>)"
# The marks that begin a call; a call between XML tags begins at its own tag.
_CALLS = r"(?:\w+[:_])?(?:tool|function|action)s?_?(?:calls?|use|code|request|start|begin|prefix)"
_MARK = rf"<\|?{_CALLS}(?!\w*(?:end|argument|response))\w*\|?>"
_OPEN: Final = re.compile(
    rf"(?i:{_MARK}|\[(?:TOOL|FUNCTION)_?(?:CALLS?|REQUEST)\])|<\uff5cDSML\uff5cfunction_calls>"
    r"|<\|python_tag\|>|<(?:tools?|call|function)>(?=\s*(?:```\w*\s*)?[\[{])"
    r"|^>>>\s*(?=[\w.]+\s*\{)|(?i:^[ \t#*]*(?:tool|function)[ _]call|^[ \t*]*action)"
    r"\W{0,3}:\W{0,3}?\s*(?:```\w*\s*)?(?=[\[{])"
    r"|<start_function_call>|<\|START_ACTION\|>|<\uff5ctool▁calls?▁begin\uff5c>|\bfunctools(?=\s*\[)"
    rf"|```tool_(?:code|calls?|use)\b|(?={_XML}{_NAME})|\bAction:\s*(?={_NAME}\s+Action Input:)"
    rf"|(?:<\|start\|>\s*assistant\s*)?(?:<\|channel\|>\w+\s*)?{_TO}",
    re.MULTILINE,
)
_FENCE = r"```(?:json|python|xml|tool_\w+)?"
_LEAD: Final = re.compile(
    rf"(?:[\s\ufeff]|{_FENCE}|<tool_call>(?=\s*[\[{{])|<\uff5ctool▁call▁begin\uff5c>|<\|plugin\|>|(?i:<\|{_CALLS}(?:_begin)?\|>))*+"
)
_TAIL: Final = re.compile(
    r"(?:[\s,;}\]]|```|<\uff5ctool▁calls?▁end\uff5c>|<tool_call\|>|<\|(?:call|eom_id|END_ACTION)\|>"
    r"|(?i:<\|/?(?:tool|function|action)\w*?(?:end|suffix)\|>|<\|/(?:tool|function)_calls?\|>)"
    r"|(?i:</(?:\uff5cDSML\uff5c|\w+:)?\w*(?:tool|function|call)\w*>|<end_function_call>)"
    r"|(?i:\[(?:/|END_)(?:TOOL|FUNCTION)_\w+\]))*+"
)
_CLOSES: Final = re.compile(r"</tool_calls?>|</\w*\Z|<tool_call>\s*\Z|\Z")
_SEPARATOR: Final = re.compile(r"[\s,;]*+")
_UNFENCED: Final = re.compile(r"[\s`\ufeff]*+")
_NAMED: Final = re.compile(
    rf"(?:function\s*<\uff5ctool▁sep\uff5c>|functions\.)?({_NAME})(?::\d+)?\s*(?:\[CALL_ID\]\s*\w+)?\s*"
    r"(?:\[ARGS\]|<\uff5ctool▁sep\uff5c>|<\|tool_call_argument_begin\|>|Action Input:"
    r"|[^{}]{0,80}<\|message\|>)?\s*"
    rf"(?:{_FENCE}\s*)?(?=\{{)"
)
_GEMMA_QUOTE: Final = re.compile(r"<escape>|<\|\"\|>")
_GEMMA: Final = re.compile(
    rf"call:({_NAME})\s*(\{{(?:(?!call:).)*?\}})\s*(?=<tool_call\|>|<end_function_call>|\Z)",
    re.DOTALL,
)
_FUNCTION: Final = re.compile(rf"{_XML}({_NAME})[\"']?\s*>?\s*")
_FUNCTION_END: Final = re.compile(rf"\s*(?:{_END_XML}|</tool(?:_call|_use)?>|<function>)")
_VALUE: Final = re.compile(
    rf"\s*<{_PARAMETER}(?:\s+name)?\s*=\s*[\"']?([^\"'>\s]+)[\"']?([^>]*)>"
    rf"((?:(?!{_XML}).)*?)(?:</{_PARAMETER}>|(?=<{_PARAMETER}[\s=]|{_END_XML}))",
    re.DOTALL,
)
_GLM: Final = re.compile(rf"({_NAME})\s*(?=<(?:\w+_)?arg_key>|</(?:\w+_)?tool_call>)")
_GLM_VALUE: Final = re.compile(
    r"\s*<(?:\w+_)?arg_key>\s*([^<]*?)\s*</\w*?arg_key>()\s*<(?:\w+_)?arg_value>"
    r"((?:(?!arg_key>).)*?)</\w*?arg_value>",
    re.DOTALL,
)
_CHILDREN: Final = re.compile(
    rf"<(?:tool_)?name>\s*({_NAME})\s*</(?:tool_)?name>\s*"
    r"<(arguments|parameters|input)>((?:(?!name>).)*?)</\2>",
    re.DOTALL,
)
_PYTHON: Final = re.compile(rf"\[?\s*(?:print\s*\(\s*)?{_NAME}\s*\(")
_PYTHON_END: Final = re.compile(r"```|<\||</(?:tool|function)|\Z")
_JSON_BEGINS: Final = re.compile(r"(?:^[ \t]*|(?<=>))(?=[{\[])", re.MULTILINE)
_ON_A_LINE: Final = re.compile(r"(?:^|```\w*[ \t]*\n?)[ \t\ufeff]*(?=[{\[])", re.MULTILINE)
_REST_OF_LINE: Final = re.compile(r"[ \t,;]*(?:\r?\n)*(?:```)?[ \t]*(?:\r?\n|\Z)")
_QUESTIONS: Final = "?\uff1f\u061f\u037e"
"""The question marks of all scripts that have one of their own."""
_ARGUMENTS: Final = (
    "arguments",
    "parameters",
    "args",
    "kwargs",
    "input",
    "params",
    "tool_input",
    "action_input",
)
_HAS_ARGUMENTS: Final = re.compile(rf"[\"'](?:{'|'.join(_ARGUMENTS)})[\"']\s*:")
_BROKEN: Final = re.compile(
    rf"\{{\s*[\"'](?:name|tool)[\"']\s*:\s*[\"']({_NAME})[\"']\s*,\s*(?={_HAS_ARGUMENTS.pattern})"
)
_WRAPPERS: Final = ("tool_calls", "tool_call", "function_call", "functionCall")
_NAMES: Final = ("name", "tool_name", "function_name", "tool", "function", "action")
_BESIDE: Final = frozenset({*_NAMES, "id", "type", "index", "call_id", "tool_call_id"})


def holds_mark(text: str) -> bool:
    """Tell whether a text holds the mark of a tool call in any notation."""
    return _END_TAG in text or _OPEN.search(text) is not None


def read_calls(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> WrittenCalls:
    """Read the tool calls in a text without reasoning.

    Args:
        text: What a model wrote.
        tools: The tools that it may call, in OpenAI's form: they give the types of values in
            notations without types, and say which JSON alone is a call.
    """
    reader = _Reader(text, tools)
    said: list[str] = []
    calls: list[WrittenCall] = []
    at = 0
    while found := _OPEN.search(text, at):
        said.append(text[at : found.start()])
        at, read = reader.section(found)
        calls += read
    rest = text[at:]
    if not calls and _END_TAG in text:
        return reader.closed_only()
    if calls:
        return WrittenCalls("".join([*said, rest.replace(_END_TAG, "")]).strip(), tuple(calls))
    return reader.alone()


def holes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of calls and of JSON, where a tag is part of a value."""
    reader = _Reader(text, ())
    starts = {end_of(_LEAD, text, found.end()) for found in _OPEN.finditer(text)}
    behind = 0
    for at in sorted(starts | {found.end() for found in _JSON_BEGINS.finditer(text)}):
        if at < behind:
            continue
        try:
            is_json = text[at : at + 1] in ("{", "[")
            behind = (json_at(text, at, len(text)) if is_json else reader.payload(at))[0]
        except Unreadable:
            continue
        yield at, behind


class _Reader:
    """Reads the calls of one text."""

    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._text = text
        functions = [tool["function"] for tool in tools]
        self._tools = {
            one["name"]: (one.get("parameters") or {}).get("properties") or {} for one in functions
        }

    def section(self, found: re.Match[str]) -> tuple[int, list[WrittenCall]]:
        """Read the calls after an opening mark; return the offset after them, and the calls."""
        text, is_tag = self._text, found[0] == _TAG
        try:
            begin = end_of(_LEAD, text, found.end())
            is_bare = is_tag and not text[found.end() : begin].strip()
            end, calls = self.payload(begin, is_asked=is_bare)
            if is_tag:
                end = end_of(STRAY, text, end)
                if closes := _CLOSES.match(text, end):
                    return closes.end(), calls
                calls = [WrittenCall(problem=f"there is more before {_END_TAG}")]
                return self._behind(found), calls
        except Unreadable as error:
            return self._behind(found), [WrittenCall(problem=str(error))]
        while text.startswith("{", at := end_of(_SEPARATOR, text, end)) or _NAMED.match(text, at):
            try:
                end, more = self.payload(at)
            except Unreadable:
                break
            calls += more
        return end_of(_TAIL, text, end), calls

    def _behind(self, found: re.Match[str]) -> int:
        """Return the offset after a call that cannot be read."""
        start = max(found.end(), found.start() + 1)
        further = _OPEN.search(self._text, start)
        behind = further.start() if further else len(self._text)
        close = self._text.find(_END_TAG, start, behind)
        return behind if close < 0 else close + len(_END_TAG)

    def closed_only(self) -> WrittenCalls:
        """Read a call whose opening tag a server or a template took away."""
        text = self._text
        before, _, behind = text.partition(_END_TAG)
        start = before.find("{")
        with suppress(Unreadable):
            end, calls = self.payload(max(start, 0))
            if end_of(_UNFENCED, before, end) == len(before):
                return WrittenCalls(f"{before[:start]}{behind}".strip(), tuple(calls))
        return WrittenCalls(
            "", (WrittenCall(problem=f"a call stands between {_TAG} and {_END_TAG}"),)
        )

    def alone(self) -> WrittenCalls:
        """Read calls without a mark: JSON on lines of its own that names a tool and its arguments.

        Text that asks something may show the call to a customer, so that it is not carried out.
        """
        text = self._text
        if not self._tools:
            return WrittenCalls(text.strip())
        start = end_of(_LEAD, text, 0)
        if _NAMED.match(text, start) or _PYTHON.match(text, start):
            with suppress(Unreadable):
                end, calls = self.payload(start)
                is_whole = end_of(_UNFENCED, text, end) == len(text)
                if is_whole and all(one.name in self._tools for one in calls):
                    return WrittenCalls("", tuple(calls))
        return self._on_lines()

    def _on_lines(self) -> WrittenCalls:
        text = self._text
        parts, calls = list[str](), list[WrittenCall]()
        behind = 0
        for found in _ON_A_LINE.finditer(text):
            at = found.end()
            if at < behind:
                continue
            try:
                end, read = self._one_after_another(at)
            except Unreadable as error:
                broken = _BROKEN.match(text, at)
                if not broken or broken[1] not in self._tools:
                    continue
                end, read = len(text), [WrittenCall(problem=str(error))]
            line = _REST_OF_LINE.match(text, end)
            is_meant = all(one.name in self._tools or one.problem for one in read)
            is_alone = not (text[: found.start()] + text[end:]).strip(" \t\r\n`")
            has_arguments = _HAS_ARGUMENTS.search(text, at, end) or (
                is_alone and any(one.arguments for one in read)
            )
            is_object = text[at:end].lstrip("[ \t\r\n").startswith("{")
            if line and is_meant and (not is_object or has_arguments):
                parts.append(text[behind : found.start()])
                calls += read
                behind = line.end()
        said = "".join([*parts, text[behind:]]).strip()
        if calls and any(mark in said for mark in _QUESTIONS):
            calls = [WrittenCall(problem="the text around it asks something")]
        return WrittenCalls(said, tuple(calls))

    def _one_after_another(self, at: int) -> tuple[int, list[WrittenCall]]:
        end, calls = self.payload(at)
        while self._text.startswith("{", at := end_of(_SEPARATOR, self._text, end)):
            end, more = self.payload(at)
            calls += more
        return end, calls

    def payload(self, at: int, *, is_asked: bool = False) -> tuple[int, list[WrittenCall]]:
        """Read one call, or a list of calls, at an offset; return the offset after it, and them."""
        text = self._text
        if found := _FUNCTION.match(text, at):
            return self._between_tags(found)
        if found := _GEMMA.match(text, at):
            return found.end(), [self._call(found[1], _of_gemma(found[2]))]
        if found := _NAMED.match(text, at):
            end, value = json_at(text, found.end())
            return end, [self._call(found[1], value)]
        if found := _CHILDREN.match(text, at):
            return found.end(), [self._call(found[1], found[3])]
        if found := _GLM.match(text, at):
            end, values = self._values(_GLM_VALUE, found[1], found.end())
            if values or found[1] in self._tools:
                return end, [self._call(found[1], values)]
        try:
            end, value = json_at(text, at)
        except Unreadable:
            if _PYTHON.match(text, at):
                return self._python(at)
            raise
        inner = value
        if isinstance(value, dict):
            inner = next((value[key] for key in _WRAPPERS if key in value), value)
        is_asked = is_asked and inner is value and is_strict(text[at:end])
        items = inner if isinstance(inner, list) and inner else [inner]
        return end, [self._named(item, is_asked=is_asked) for item in items]

    def _between_tags(self, found: re.Match[str]) -> tuple[int, list[WrittenCall]]:
        text, name = self._text, found[1]
        if text.startswith("{", found.end()):
            end, value = json_at(text, found.end())
        else:
            end, value = self._values(_VALUE, name, found.end())
        closed = _FUNCTION_END.match(text, end)
        behind = end_of(_UNFENCED, text, end)
        is_last = behind == len(text) or text.startswith("</", behind)
        if not closed and not (value and is_last):
            raise Unreadable(f"the tag of {name[:40]!r} is not closed")
        return closed.end() if closed else end, [self._call(name, value)]

    def _values(self, pattern: re.Pattern[str], tool: str, at: int) -> tuple[int, dict[str, Any]]:
        values: dict[str, Any] = {}
        while found := pattern.match(self._text, at):
            name, about, written = found.groups()
            known = self._tools.get(tool, {}).get(name)
            values[name] = _typed(written, known, about)
            at = found.end()
        return at, values

    def _python(self, at: int) -> tuple[int, list[WrittenCall]]:
        """Read ``name(key=value)``, or a list of such calls, up to the next mark."""
        found = _PYTHON_END.search(self._text, at)
        end = found.start() if found else len(self._text)
        if end - at > MAX_CALL_CHARS:
            raise Unreadable(f"it is longer than {MAX_CALL_CHARS} characters")
        return end, [self._call(*one) for one in _of_python(self._text[at:end].strip())]

    def _named(self, call: Any, *, is_asked: bool = False) -> WrittenCall:
        """Read a call written as a JSON object."""
        if not isinstance(call, dict):
            raise Unreadable("it is not a JSON object")
        inner = call.get("function")
        if isinstance(inner, dict):
            return self._named(inner)
        key = next((key for key in _NAMES if isinstance(call.get(key), str) and call[key]), None)
        if key is None:
            (only,) = call if len(call) == 1 else ("",)
            if only in self._tools and isinstance(call[only], dict):
                return self._call(only, call[only])
            raise Unreadable("it has no name")
        keys = [one for one in _ARGUMENTS if one in call]
        filled = [one for one in keys if call[one] not in (None, "", {})]
        if len(filled) > 1:
            raise Unreadable(f"it has arguments under {' and '.join(map(repr, filled))}")
        given = call[filled[0]] if filled else None
        if isinstance(given, dict) and {"type", "properties"} <= given.keys():
            raise Unreadable("it defines a tool, and does not call it")
        others = [one for one in call if one not in _BESIDE]
        if not keys and others:
            raise Unreadable(f"its key {others[0][:40]!r} is unknown; arguments go in 'arguments'")
        asked = is_asked and key == "name" and keys in ([], ["arguments"])
        return self._call(call[key], given, as_asked=asked)

    def _call(self, name: str, arguments: Any, *, as_asked: bool = False) -> WrittenCall:
        short = name.removeprefix("functions.")
        name = short if name not in self._tools and short else name
        return WrittenCall(name, read_arguments(arguments), as_asked=as_asked)


def _typed(written: str, schema: Mapping[str, Any] | None, about: str) -> Any:
    """Return a value without a type as its parameter's schema wants it, else as text."""
    text = written.removeprefix("\n").removesuffix("\n")
    schema = schema or {}
    kinds = {str(one.get("type")) for one in schema.get("anyOf") or [schema] if one.get("type")}
    is_container = not kinds and text.lstrip().startswith(("{", "["))
    if "string" in kinds or 'string="true"' in about:
        return text
    if not (kinds or is_container or 'string="false"' in about):
        return text
    if kinds == {"boolean"}:
        text = text.lower()
    try:
        return STRICT_DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return text


def _of_gemma(written: str) -> str:
    """Return Gemma's ``{key:<escape>text<escape>}`` as JSON."""
    parts = _GEMMA_QUOTE.split(written)
    parts[1::2] = [dumps(text) for text in parts[1::2]]
    parts[0::2] = [re.sub(r"([^\W\d]\w*)\s*:", r'"\1":', keys) for keys in parts[0::2]]
    return "".join(parts)


def _of_python(written: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the arguments, as JSON, of calls with literal keyword arguments."""
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(written).body
        for statement in body:
            made = statement.value if isinstance(statement, ast.Expr) else None
            for call in made.elts if isinstance(made, ast.List) else [made]:
                yield _of_python_call(call)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise Unreadable("it is neither JSON nor a call in Python with named values") from error


def _of_python_call(call: ast.expr | None) -> tuple[str, str]:
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "print":
        (call,) = call.args
    if not isinstance(call, ast.Call):
        raise TypeError("it is no call")
    name = ast.unparse(call.func).removesuffix(".call")
    if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Dict):
        return name, dumps(ast.literal_eval(call.args[0]))
    if call.args:
        raise ValueError("its values have no names")
    return name, dumps({str(one.arg): ast.literal_eval(one.value) for one in call.keywords})

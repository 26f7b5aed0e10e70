"""Read the JSON of a tool call as models write it: strict, or repaired where it has one meaning."""

import json
import math
import re
from typing import Any, Final

from skillwright.core.jsonio import dumps

MAX_CALL_CHARS: Final = 65_536
"""A call with a longer name and arguments is not carried out."""
MAX_DEPTH: Final = 32
"""Nor is one whose arguments are nested deeper."""


class Unreadable(ValueError):
    """A call has no meaning, or several; the message says why."""


_FENCED: Final = re.compile(r"\s*```[\w-]*\s(.*)```\s*", re.DOTALL)
STRAY: Final = re.compile(r"[\s`\ufeff,;}\]]*+")
"""Matches what models leave after a call: blanks, the end of a fence, brackets too many."""


def read_arguments(written: Any) -> dict[str, Any]:
    """Read arguments: an object, a list of one object, its JSON text, or nothing.

    The text may be encoded twice, in a code fence, or malformed in a way that has one meaning.

    Raises:
        Unreadable: They are something else.
    """
    for _ in range(3):
        if not isinstance(written, str):
            break
        if len(written) > MAX_CALL_CHARS:
            raise Unreadable(f"it is longer than {MAX_CALL_CHARS} characters")
        text = _unfenced(written)
        try:
            end, written = json_at(text, 0) if text else (0, None)
        except Unreadable as error:
            raise Unreadable(f"its arguments are a string that is no JSON: {error}") from error
        if end_of(STRAY, text, end) < len(text):
            raise Unreadable("there is more behind the JSON of its arguments")
    if written is None:
        return {}
    if isinstance(written, list) and len(written) == 1:
        (written,) = written
    if not isinstance(written, dict):
        raise Unreadable("its arguments are not a JSON object")
    if too_deep(written):
        raise Unreadable(f"its arguments are nested deeper than {MAX_DEPTH} levels")
    return written


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


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the offset after a match at an offset, or that offset without one."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _unfenced(text: str) -> str:
    """Return a text without a code fence, a byte order mark and blanks around it."""
    fenced = _FENCED.fullmatch(text)
    return (fenced[1] if fenced else text).strip(" \t\r\n\ufeff")


def json_at(text: str, at: int, most: int = MAX_CALL_CHARS) -> tuple[int, Any]:
    """Read the JSON value at an offset; return the offset after it, and the value."""
    try:
        try:
            value, end = STRICT_DECODER.raw_decode(text, at)
        except ValueError:
            if not (repaired := _repaired(text, at, most)):
                raise
            value, end = STRICT_DECODER.decode(repaired[0]), repaired[1]
    except (ValueError, RecursionError) as error:
        long = len(text) - at > most and text.startswith(("{", "["), at)
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Unreadable(f"it is longer than {most} characters" if long else reason) from error
    if end - at > most:
        raise Unreadable(f"it is longer than {most} characters")
    if too_deep(value):
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH} levels")
    return end, value


# What JSON is made of, as models write it.
_TOKEN: Final = re.compile(
    r"""(?P<string>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|\u201c[^\u201c\u201d\\]*\u201d)(?=\s*[,:}\]]|\s*</)"""
    r"""|(?P<none>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/|,(?=\s*(?:[}\]]|</)))"""
    r"""|(?:true|false|null|True|False|None)\b|(?P<key>[A-Za-z_]\w*)(?=\s*:)"""
    r"""|-?\d[\d.eE+-]*|[][{}:,]""",
    re.DOTALL,
)
_IN_STRING: Final = re.compile(r"\\.|[\"\n\r\t]", re.DOTALL)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def _repaired(text: str, at: int, most: int) -> tuple[str, int] | None:
    """Rewrite malformed JSON at an offset as strict JSON; return it and the offset after it.

    Repairs single and curled quotes, bare keys, comments, Python's constants, line breaks in
    strings, commas before a closing bracket, missing brackets before a closing tag, and an
    extra ``}`` in the outermost list.
    """
    made: list[str] = []
    opened: list[str] = []
    begun = at
    while (found := _TOKEN.match(text, at)) and at - begun < most and len(opened) <= MAX_DEPTH:
        token, at = found[0], found.end()
        if found["string"]:
            token = f'"{_IN_STRING.sub(_of_string, token[1:-1])}"'
        elif found["key"]:
            token = dumps(token)
        elif found["none"]:
            token = ""
        elif token in "{[":
            opened.append("}" if token == "{" else "]")
        elif opened == ["]"] and token == "}":
            token = ""
        elif token in "}]" and (not opened or opened.pop() != token):
            return None
        made.append(_WORDS.get(token, token))
        if not opened:
            return "".join(made), at
    if opened and text.startswith("</", at):
        return "".join([*made, *reversed(opened)]), at
    return None


def _of_string(found: re.Match[str]) -> str:
    if found[0] == r"\'":
        return "'"
    return found[0] if found[0][0] == "\\" else dumps(found[0])[1:-1]


def is_strict(text: str) -> bool:
    """Tell whether a text is strict JSON."""
    try:
        STRICT_DECODER.decode(text)
    except (ValueError, RecursionError):
        return False
    return True

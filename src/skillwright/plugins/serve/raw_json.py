"""Changes in JSON text that leave the rest as it was written.

Parsing and writing JSON again changes large and long numbers, ``-0``, repeated keys, and lone
surrogates; here only the changed values are written.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

_MOST_DIGITS: Final = 4_000  # Python refuses longer integers
_BLANKS: Final = " \t\r\n"
_Edit = tuple[int, int, str]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MOST_DIGITS else float(digits)


_DECODER: Final = json.JSONDecoder(parse_int=_integer)


def parsed(text: str) -> Any:
    """Parse JSON that may hold numbers of any size and lone surrogates.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    return _DECODER.decode(text)


def patched(text: str, before: Any, after: Any) -> str:
    """Return JSON text with another value.

    Args:
        text: The text.
        before: Its value.
        after: The new value, which shares the unchanged parts of ``before``. A list may have one
            more element, the first or the last.
    """
    start = _after_blanks(text, 0)
    for first, last, new in sorted(_edits(text, start, before, after), reverse=True):
        text = f"{text[:first]}{new}{text[last:]}"
    return text


def _edits(text: str, start: int, before: Any, after: Any) -> Iterator[_Edit]:
    """Yield the changes in a value that begins at ``start``."""
    if after is before:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        places = dict(_members(text, start))  # of equal keys the last counts, as everywhere
        for key, old in before.items():
            yield from _edits(text, places[key], old, after[key])
        if added := {key: after[key] for key in after if key not in before}:
            yield start + 1, start + 1, json.dumps(added)[1:-1] + "," * bool(before)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_edits(text, start, before, after)
    else:
        yield start, _end(text, start), json.dumps(after)


def _list_edits(text: str, start: int, before: list[Any], after: list[Any]) -> Iterator[_Edit]:
    if len(after) == len(before):
        for place, old, new in zip(_elements(text, start), before, after, strict=True):
            yield from _edits(text, place, old, new)
    elif len(after) == len(before) + 1 and _same(after[1:], before):
        comma = "," if before else ""
        yield start + 1, start + 1, f"{json.dumps(after[0])}{comma}"
    elif len(after) == len(before) + 1 and _same(after[:-1], before):
        end = _end(text, start) - 1
        yield end, end, f",{json.dumps(after[-1])}"
    else:
        yield start, _end(text, start), json.dumps(after)


def _same(after: list[Any], before: list[Any]) -> bool:
    return all(new is old for new, old in zip(after, before, strict=True))


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the keys of an object, and where their values begin."""
    at = _after_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _after_blanks(text, _after_blanks(text, at) + 1)  # the colon
        yield key, at
        at = _next(text, at)


def _elements(text: str, at: int) -> Iterator[int]:
    """Yield where the elements of an array begin."""
    at = _after_blanks(text, at + 1)
    while text[at] != "]":
        yield at
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    """Return the place after a value and its comma."""
    at = _after_blanks(text, _end(text, at))
    return _after_blanks(text, at + 1) if text[at] == "," else at


def _end(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _after_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at

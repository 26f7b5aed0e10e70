"""Find the JSON object at the end of a reply, also if its JSON is slightly malformed."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from skillwright.envs.table.unicode_forms import folded
from skillwright.models.repairs import near_values
from skillwright.models.shapes import as_json, end_of_json

_START: Final = re.compile(
    r"\{(?=\s*(?:[\"'\u201c\u201d\u2018\u2019}]|[^\W\d]\w*[\"']?\s*:|//|/\*|#))"
)
_BRACKET: Final = re.compile(r"[][{}]")
_CODE: Final = re.compile(r"(:\s*)(0\d+)(?=\s*[,}\]])")
_LONGEST_REPAIRED: Final = 20_000
_MOST_REPAIRED: Final = 20


def final_object(text: str, fields: Collection[str]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the final object of a text, and whether the text is cut off inside an object.

    Models write drafts before their answer and remarks after it. So of the objects with the most
    fields, the last one counts. If an object's only value is an object with the fields, the inner
    one counts. If the text ends inside an object with one of the fields, there is no final object.
    """
    best: Mapping[str, Any] | None = None
    for found in _objects(_decoded(text)):
        if isinstance(found, str):
            if any(name in found for name in fields):
                return None, True
            break
        named = _unwrapped({folded(name): value for name, value in found.items()}, fields)
        if best is None or _shared(named, fields) >= _shared(best, fields):
            best = named
    return best, False


def _decoded(text: str) -> str:
    """Decode a reply that is a single JSON string, such as an object that was encoded twice."""
    bare = text.strip()
    if bare.startswith('"{') and bare.endswith('}"'):
        with suppress(ValueError):
            return str(json.loads(bare))
    return text


def _unwrapped(found: Mapping[str, Any], fields: Collection[str]) -> Mapping[str, Any]:
    inner = next(iter(found.values())) if len(found) == 1 else None
    has_them = isinstance(inner, Mapping) and not _shared(found, fields) and _shared(inner, fields)
    return inner if has_them and isinstance(inner, Mapping) else found


def _shared(found: Mapping[str, Any], fields: Collection[str]) -> int:
    return sum(name in found for name in fields)


def _objects(text: str) -> Iterator[dict[str, Any] | str]:
    """Yield the outermost objects of a text; a last object that is cut off is yielded as text."""
    start, tries = 0, _MOST_REPAIRED
    while opening := _START.search(text, start):
        at = opening.start()
        end = end_of_json(text, at)
        if end is None and text[at + 1 :].lstrip()[:1] in "'\u2018":
            # Within Python's single quotes, a double quote begins no string.
            end = end_of_json(text, at, _BRACKET)
        if end is None:
            yield text[at:]
            return
        found = as_json(text[at:end])
        if found is None and tries and end - at <= _LONGEST_REPAIRED:
            tries -= 1
            found = _repaired(text[at:end])
        if isinstance(found, dict):
            yield found
        start = end


def _repaired(text: str) -> Any:
    # Digits with a leading zero are a code, and a repair would drop the zero.
    near = near_values(_CODE.sub(r'\1"\2"', text), is_cut=True)
    return next((found.value for found in near), None)

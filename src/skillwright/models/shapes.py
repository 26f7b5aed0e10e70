"""Convert a JSON value of another shape to the requested form, if its meaning is unambiguous."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Reply = TypeVar("Reply", bound=BaseModel)

LENIENT: Final = {"lenient": True}
"""The validation context in which a form may also accept unambiguous other shapes."""

# A string is one token, closed or not, so that a scan takes linear time.
TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)

_DEEPEST: Final = 7
_MOST_LEVELS: Final = 100
_BLOCKS: Final = ("text", "output_text", "thinking", "reasoning", "tool_use", "function")
NOT_MEANT: Final = re.compile(
    r"(?:.*_)?(?:rejected|considered|discarded|dismissed|excluded|drafts?|examples?|alternatives?|previous"
    r"|earlier|existing|withdrawn|superseded|obsolete)(?:_.*)?"
)
"""Keys of what a model says it does not propose."""
_MOST_FIXES: Final = 12
_SAME: Final = (
    frozenset({"add", "append", "insert", "create", "new"})
    | {"adds", "appends", "inserts", "addition", "additions", "insertion", "insertions"},
    frozenset(
        {"replace", "refine", "update", "modify", "edit", "revise", "change"}
        | {"substitute", "str_replace", "find_and_replace", "search_and_replace", "replacements"}
        | {"rewrite", "swap", "replacement", "replaces", "updates", "modification", "modifications"}
        | {"revision", "revisions", "rewrites", "refinement", "refinements", "substitutions"}
    ),
    frozenset({"delete", "remove", "retire", "drop", "erase", "deletes", "removes", "retires"})
    | {"deletion", "deletions", "removal", "removals", "retirement", "retirements"},
)
"""Words for the same operation; a form knows at most one of each group."""
_VAGUE: Final = ("new", "edit", "change")  # keys of texts and lists, too
_PLAIN_OPERATIONS: Final = ("add", "append", "insert", "replace", "delete", "remove")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "op": ("operation", "action", "type", "edit_type"),
    "name": ("title",),
    "principle": ("rule", "content", "text"),
    "applicability": ("when_to_apply", "when"),
    "selected_indices": ("indices", "selected", "ranking", "selection"),
    "new_skill": ("skill", "rewritten_skill", "content"),
    "slow_update_content": ("content", "guidance"),
    "meta_skill_content": ("content", "notes", "memory"),
    "edit_budget": ("budget", "learning_rate"),
    "score": ("rating", "grade"),
    "id": ("trajectory", "episode"),
}
"""Other names of a key, where a form lacks it."""


def fit(value: Any, reply_type: type[Reply]) -> Reply | None:
    """Read a value as a form: the value itself, or the only part of it that fits.

    A part may be below other keys, alone in a list, or a JSON text. Keys around it are added to the
    part unless it has them.
    """
    level = [value]
    for _ in range(_DEEPEST):
        found: list[Reply] = []
        for one in level:
            reply = _fixed(_with_plain_names(one), reply_type)
            if reply is not None and reply not in found:
                found.append(reply)
        if found:
            return found[0] if len(found) == 1 else None
        level = [part for one in level for part in _parts(one)]
    return None


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if NOT_MEANT.fullmatch(snake_case(str(key))):
                continue
            part = as_json(item) if isinstance(item, str) else item
            if isinstance(part, Mapping):
                around = {name: other for name, other in value.items() if name != key}
                yield {**around, **part}
            elif isinstance(part, list) and part:
                yield part
    elif isinstance(value, list) and (len(value) == 1 or all(map(_is_block, value))):
        yield from value


def _is_block(value: Any) -> bool:
    """Return whether a value is a part of a message, as endpoints send it."""
    return isinstance(value, Mapping) and value.get("type") in _BLOCKS


def as_json(text: str, kind: type | tuple[type, ...] = (dict, list)) -> Any:
    """Parse a text as JSON, else return ``None``; raw line breaks are allowed, NaN is not.

    A value of more than 100 levels is refused, too.
    """
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) and not _is_too_deep(value) else None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [part for one in level for part in _values(one)]
    return bool(level)


def _values(value: Any) -> Iterable[Any]:
    """List the values of an object or a list."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def end_of_json(text: str, start: int, tokens: re.Pattern[str] = TOKENS) -> int | None:
    """Return the position after the bracket that closes the one at ``start``, or ``None``.

    Args:
        text: A text.
        start: The position of an opening bracket.
        tokens: A pattern of strings, in which brackets do not count, and of brackets.
    """
    depth = 0
    for token in tokens.finditer(text, start):
        if token.group() in "{[":
            depth += 1
        elif token.group() in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def snake_case(name: str) -> str:
    r"""Return a key as forms write it: ``Failure Summary``, ``failureSummary``, ``failure\_..``."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("\\", "").strip(" \"'*`:"))
    return re.sub(r"[\s_-]+", "_", plain).lower()


def same_operation(word: str, known: Iterator[str] | tuple[str, ...]) -> str | None:
    """Return the known operation that a word means, or ``None``."""
    known, word = tuple(known), snake_case(word)
    if word in known:
        return word
    meant = [one for group in _SAME if word in group for one in known if one in group]
    return meant[0] if len(meant) == 1 else None


_NOTHING: Final = re.compile(
    r"(?:(?:none|nothing|n a|nil|no (?:more |other )?(?:addition|insertion|deletion|removal"
    r"|replacement|change|edit)s?)(?: (?:is |are )?(?:needed|required|proposed|made))?)?",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Return whether a text is empty or says that there is nothing: ``None needed``."""
    return _NOTHING.fullmatch(" ".join(re.findall(r"\w+", text))) is not None


def operation_group(word: str) -> str | None:
    """Return ``add``, ``replace`` or ``delete`` for a word of that meaning, else ``None``."""
    first = word.partition("_")[0]
    for name, group in zip(("add", "replace", "delete"), _SAME, strict=True):
        if (word in group and word not in _VAGUE) or (
            first in group and first in _PLAIN_OPERATIONS
        ):
            return name
    return None


def _with_plain_names(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_plain_names(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    plain = {snake_case(str(key)): _with_plain_names(item) for key, item in value.items()}
    return plain if len(plain) == len(value) else value


def _fixed(value: Any, reply_type: type[Reply]) -> Reply | None:
    """Validate a value; correct wrong types if the meaning is unambiguous, or return ``None``."""
    required = [name for name, one in reply_type.model_fields.items() if one.is_required()]
    for _ in range(_MOST_FIXES):
        try:
            return reply_type.model_validate(value, context=LENIENT)
        except ValidationError as error:
            details = error.errors(include_url=False)
        if isinstance(value, list) and len(required) == 1:
            value = _whole_list(value, required[0], reply_type)
        elif not isinstance(value, dict) or not sum(_fix(value, one) for one in details):
            return None
    return None


def _whole_list(items: list[Any], name: str, reply_type: type[BaseModel]) -> Any:
    """Return a list as the value of the only required field, and that of several replies joined."""
    parts = [one.get(name) if isinstance(one, Mapping) else None for one in items]
    if items and all(isinstance(part, list) for part in parts):
        return {name: [item for part in parts for item in part or ()]}
    return None if any(_fits(one, reply_type) for one in items) else {name: items}


def _fits(value: Any, reply_type: type[BaseModel]) -> bool:
    try:
        reply_type.model_validate(value)
    except ValidationError:
        return False
    return True


def _fix(root: dict[str, Any], detail: ErrorDetails) -> bool:
    """Correct one problem of a value; return whether that was possible."""
    kind, path = detail["type"], detail["loc"]
    if kind == "union_tag_not_found":
        kind, path = "missing", (*path, "op")
    elif kind == "union_tag_invalid":
        path = (*path, "op")
    owner: Any = root
    for step in path[:-1]:
        if isinstance(owner, dict) and step not in owner:
            continue  # the tag of a union
        try:
            owner = owner[step]
        except (LookupError, TypeError):
            return False
    last: Any = path[-1] if path else None
    if kind == "missing":
        return isinstance(owner, dict) and _rename(owner, last)
    try:
        old = owner[last]
    except (LookupError, TypeError):
        return False
    if old is None and isinstance(owner, dict):
        del owner[last]  # null for a field that may be absent
        return True
    new = _converted(old, detail)
    if new is None:
        return False
    owner[last] = new
    return True


def _rename(owner: dict[str, Any], wanted: str) -> bool:
    others = [name for name in _KEYS.get(wanted, ()) if name in owner]
    if len(others) != 1:
        return False
    owner[wanted] = owner.pop(others[0])
    return True


def _converted(old: Any, detail: ErrorDetails) -> Any:
    match detail["type"], old:
        case "list_type", dict():
            return as_list(old)
        case "list_type", str():
            found = as_json(old)
            return as_list(found) if isinstance(found, dict) else found
        case (("dict_type" | "model_type" | "model_attributes_type"), str()):
            found = as_json(old)
            return found if isinstance(found, dict) else None
        case "int_type", str() if re.fullmatch(r"\s*-?\d{1,9}\s*", old):
            return int(old)
        case "int_type", float() if old.is_integer():
            return int(old)
        case "string_type", list() if all(isinstance(line, str) for line in old):
            return "\n".join(old)
        case (("literal_error" | "union_tag_invalid"), str()):
            known = detail["ctx"].get("expected") or detail["ctx"]["expected_tags"]
            new = same_operation(old, tuple(re.findall(r"'(\w+)'", known)))
            return new if new != old else None
        case _:
            return None


def has_nothing(value: dict[str, Any], key: str, remarks: Collection[str] = ()) -> bool:
    """Return whether the value of a key is null or empty, and no other key has a list or an object.

    Args:
        value: A reply.
        key: A key; if it is missing, the result is false.
        remarks: Other keys that may have a list or an object.
    """
    if value.get(key, key) not in (None, [], {}):
        return False
    others = (item for name, item in value.items() if name not in remarks)
    return not any(
        as_json(item) if isinstance(item, str) else isinstance(item, list | dict) and item
        for item in others
    )


def as_list(value: dict[str, Any]) -> list[Any]:
    """Convert an object to a list: its items by id, its only list, or the object itself."""
    items = list(value.values())
    if len(items) == 1 and isinstance(items[0], list):
        return items[0]
    if items and all(isinstance(item, dict) for item in items):
        return [{"id": name, **item} for name, item in value.items()]
    return [value]

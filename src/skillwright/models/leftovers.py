"""Account for a reply: what it proposes besides what was read is named, never lost."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from skillwright.models.repairs import restored_latex
from skillwright.models.shapes import (
    NOT_MEANT,
    as_json,
    fit,
    operation_group,
    says_nothing,
    snake_case,
)

DROPPED: Final = " is dropped: "
"""Separates what was dropped from the cause in a note."""
_SHOWN: Final = 80
REMARK: Final = re.compile(
    r"(?:.*_)?(?:reason|reasons|reasoning|rationale|thoughts?|thinking|analys[ie]s|explanation|why"
    r"|justification|motivation|summary|overview|comments?|notes?|confidence|evidence|sources"
    r"|ids?|descriptions?|patterns?|impact|priority|diagnosis|observations?|status|turns|failures?|title"
    r"|success|cause|category|quotes?)(?:_.*)?"
)
"""Keys whose texts explain a reply and propose nothing."""
_OPERATION_KEYS: Final = ("op", "operation", "action", "type", "edit_type", "command", "name")
_TOKEN: Final = re.compile(r"[\x21-\x7e]*")


class _Piece(NamedTuple):
    """An edit, or a single text or number, with its texts by what identifies them."""

    is_edit: bool
    key: str
    texts: Mapping[str, str]


def left_over(values: Sequence[Any], read: BaseModel) -> list[str]:
    """Say what the values of a reply propose besides what was read, and why it is dropped.

    Args:
        values: The JSON values of the reply, in order.
        read: What was read of them.
    """
    fields = frozenset(name for name, one in type(read).model_fields.items() if one.is_required())
    proposed = _pieces(read.model_dump(include=set(fields)), "", fields)
    edits = {frozenset(one.texts) for one in proposed if one.is_edit}
    known = list(_pieces(read.model_dump(), "", fields))
    texts = {name for one in known for name in one.texts}
    texts |= {
        _identity(line)
        for one in known
        for text in one.texts.values()
        for line in text.splitlines()
    }
    missing = [list(_missing(_pieces(one, "", fields), edits, texts)) for one in values]
    least = min(map(len, missing), default=0)
    chosen = max((at for at, lost in enumerate(missing) if len(lost) == least), default=0)
    notes = []
    for at, lost in enumerate(missing):
        is_other = at != chosen
        is_answer = not is_other or (lost and fit(values[at], type(read)) is not None)
        kept = [one for one in lost if is_answer or one.is_edit]
        notes += [_note(one if is_other else _trimmed(one, edits), is_other) for one in kept]
    return list(dict.fromkeys(notes))


def unreadable_note(part: str) -> str:
    """Say that a part of a reply could not be read."""
    return f"part{DROPPED}it is not JSON, and what it means is not certain: {_quoted(part)}"


def _quoted(text: str) -> str:
    return repr(" ".join(text.split())[:_SHOWN])


def _missing(
    pieces: Iterable[_Piece], edits: set[frozenset[str]], texts: set[str]
) -> Iterator[_Piece]:
    for one in pieces:
        wanted = frozenset(one.texts)
        if not one.is_edit:
            if not wanted <= texts:
                yield one
        elif wanted not in edits and not any(wanted <= other for other in edits):
            yield one


def _trimmed(piece: _Piece, edits: set[frozenset[str]]) -> _Piece:
    """Return a text of an edit that was read without it, alone; any other piece is whole."""
    wanted = frozenset(piece.texts)
    nearest = max(edits, key=lambda other: len(wanted & other), default=frozenset[str]())
    lost = wanted - nearest
    if not piece.is_edit or 2 * len(lost) >= len(wanted) or any(map(_is_operation, lost)):
        return piece
    return _Piece(False, piece.key, {name: piece.texts[name] for name in sorted(lost)})


def _note(piece: _Piece, is_other: bool) -> str:
    said = " ".join(text for name, text in piece.texts.items() if not _is_operation(name))
    cause = f"the form asked for has no place for it below {piece.key!r}"
    if is_other:
        cause = "it is in another answer of the same reply than the one that was read"
    elif any(NOT_MEANT.fullmatch(snake_case(name)) for name in piece.key.split(".")):
        cause = f"the reply itself sets it aside below {piece.key!r}"
    return f"{'edit' if piece.is_edit else 'part'}{DROPPED}{cause}: {_quoted(said)}"


def _pieces(
    value: Any, key: str, fields: frozenset[str], *, aside: bool = False
) -> Iterator[_Piece]:
    """List the pieces of a value below a path of keys; ``aside`` lists edits alone."""
    name = snake_case(key.rpartition(".")[2])
    if isinstance(value, str):
        value = as_json(value) or value
    group = operation_group(name)
    if isinstance(value, list):
        for item in value:
            yield from _pieces(item, key, fields, aside=aside)
    elif (own := _operation_of(value) or group) and not holds_edits(value, is_within=False):
        texts = {_identity(one): one for one in _texts([value]) if not says_nothing(one)}
        if texts and not (aside and isinstance(value, str)):
            yield _Piece(True, key, {f"op {own}": own, **texts})
    elif isinstance(value, Mapping):
        for inner, item in value.items():
            is_aside = aside or _is_aside(snake_case(str(inner)), fields)
            yield from _pieces(item, f"{key}.{inner}".strip("."), fields, aside=is_aside)
    elif not aside:
        yield from _single(value, key, name, name in fields)


def _is_aside(name: str, fields: frozenset[str]) -> bool:
    is_remark = NOT_MEANT.fullmatch(name) or REMARK.fullmatch(name)
    return is_remark is not None and name not in fields


def _single(value: Any, key: str, name: str, is_field: bool) -> Iterator[_Piece]:
    if isinstance(value, str):
        if not _TOKEN.fullmatch(value) and not says_nothing(value):
            yield _Piece(False, key, {_identity(value): value})
    elif type(value) in (int, float) and is_field:
        yield _Piece(False, key, {f"{name} {value}": str(value)})


def holds_edits(value: Any, *, is_within: bool = True) -> bool:
    """Return whether an object in a value names an operation."""
    if isinstance(value, str):
        value = as_json(value)
    if isinstance(value, Mapping):
        named = is_within and _operation_of(value) is not None
        return named or any(map(holds_edits, value.values()))
    return isinstance(value, list) and any(map(holds_edits, value))


def _operation_of(item: Any) -> str | None:
    if not isinstance(item, Mapping):
        return None
    plain = {snake_case(str(name)): value for name, value in item.items()}
    words = (snake_case(plain[one]) for one in _OPERATION_KEYS if isinstance(plain.get(one), str))
    return next(filter(None, map(operation_group, words)), None)


def _texts(value: Any) -> Iterator[str]:
    """List the texts of an edit, without its operation and its remarks."""
    if isinstance(value, str):
        if _identity(value) and operation_group(snake_case(value)) is None:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name == "id" or not REMARK.fullmatch(snake_case(str(name))):
                yield from _texts(item)


def _is_operation(identity: str) -> bool:
    return identity.startswith("op ")


def _identity(text: str) -> str:
    """Return what stays of a text where blanks, marks and case are rewritten."""
    return re.sub(r"[\W_]+", "", restored_latex(text)).casefold()

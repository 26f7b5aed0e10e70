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
    r"(?!.*_(?:rules?|tips?|guidelines?|instructions?|lessons?)$)"
    r"(?:.*_)?(?:reason|reasons|reasoning|rationales?|thoughts?|thinking|analys[ei]s|explanation|why"
    r"|justification|motivation|summary|overview|comments?|notes?|confidence|evidence|sources"
    r"|ids?|descriptions?|patterns?|impact|priority|diagnosis|observations?|status|turns|failures?|title"
    r"|success|cause|causes|category|quotes?|findings?|insights?|transcripts?|trajectory|trajectories"
    r"|excerpts?|expected|effects?|risks?|limitations?|conclusions?|environment|task|addressed"
    r"|unaddressed|strategy|classification|defects?|lapses?|mistakes?|errors?|merged|resolved|kept"
    r"|conflicts?|contradictions?|worked|regressed|regressions?|persistent|next_steps)(?:_.*)?"
    r"|.*(?:推理|理由|分析|总结|解释|原因|说明|備考|备注|説明|要約|根拠)"
    r"|begründung|zusammenfassung|erklärung|razonamiento|resumen|explicación|análisis"
    r"|raisonnement|résumé|explication"
)
"""Keys whose texts explain a reply and propose nothing; some models translate them."""
_OPERATION_KEYS: Final = ("op", "operation", "edit_type")
_VAGUE_KEYS: Final = ("action", "type", "command", "name")  # of an agent's actions, too
_EDIT_TEXT: Final = re.compile(
    r"(?:.*_)?(?:content|text|target|old|new|rule|principle|anchor|find|lines?|bullet|passage|section"
    r"|replacement|with|instruction)(?:_.*)?"
)
_TOKEN: Final = re.compile(r"[\x21-\x7e]*")


class _Piece(NamedTuple):
    """An edit, or a single text or number, with its texts by what identifies them."""

    is_edit: bool
    key: str
    texts: Mapping[str, str]


_Edits = dict[str, list[frozenset[str]]]
"""Edits by each of their texts."""


def left_over(values: Sequence[Any], read: BaseModel) -> list[str]:
    """Say what the values of a reply propose besides what was read, and why it is dropped.

    Args:
        values: The JSON values of the reply, in order.
        read: What was read of them.
    """
    fields = frozenset(name for name, one in type(read).model_fields.items() if one.is_required())
    proposed = _pieces(read.model_dump(include=set(fields)), "", fields)
    edits: _Edits = {}
    for one in proposed:
        for name in one.texts if one.is_edit else ():
            edits.setdefault(name, []).append(frozenset(one.texts))
    known = list(_pieces(read.model_dump(), "", fields))
    texts = {name for one in known for name in one.texts}
    texts |= {line for one in known for text in one.texts.values() for line in _lines(text)}
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
    return f"part{DROPPED}it is not JSON, and what it means is not certain: {quoted(part)}"


def quoted(text: str) -> str:
    """Quote the start of a text on one line."""
    return repr(" ".join(text.split())[:_SHOWN])


def _missing(pieces: Iterable[_Piece], edits: _Edits, texts: set[str]) -> Iterator[_Piece]:
    for one in pieces:
        wanted = frozenset(one.texts)
        if not one.is_edit:
            if not wanted <= texts:
                yield one
        else:
            rarest = min((edits.get(name, []) for name in wanted), key=len)
            if not any(wanted <= other for other in rarest):
                yield one


def _trimmed(piece: _Piece, edits: _Edits) -> _Piece:
    """Return a text of an edit that was read without it, alone; any other piece is whole."""
    wanted = frozenset(piece.texts)
    alike = (other for name in wanted if not _is_operation(name) for other in edits.get(name, ()))
    nearest = max(alike, key=lambda other: len(wanted & other), default=frozenset[str]())
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
    return f"{'edit' if piece.is_edit else 'part'}{DROPPED}{cause}: {quoted(said)}"


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
    inner = [name for one in plain.values() if isinstance(one, Mapping) for name in one]
    is_edit = any(_EDIT_TEXT.fullmatch(snake_case(str(name))) for name in (*plain, *inner))
    keys = (*_OPERATION_KEYS, *(_VAGUE_KEYS if is_edit else ()))
    words = (snake_case(plain[one]) for one in keys if isinstance(plain.get(one), str))
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
    return "".join(_lines(text))


def _lines(text: str) -> list[str]:
    return re.sub(r"[^\w\n]+|_+", "", restored_latex(text)).casefold().split("\n")

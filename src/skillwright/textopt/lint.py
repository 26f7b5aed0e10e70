"""Which edits of a reply can be used, and what may not enter a skill, whoever proposes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillwright.core import Edit
from skillwright.core.edit import EDIT_OPS
from skillwright.core.fence import is_hidden, restore_tags

TOO_LONG = "refused_too_long"
INVISIBLE = "refused_invisible_characters"


@dataclass(frozen=True, slots=True)
class EditLimits:
    """How much text a skill may take up.

    Attributes:
        max_edit_chars: Characters of one edit, target and content together.
        max_skill_chars: Characters of a candidate skill. One that is longer already may shrink.
    """

    max_edit_chars: int = 20_000
    max_skill_chars: int = 60_000


def refusal(edit: Edit, limits: EditLimits) -> str | None:
    """Return the status under which an edit is refused, or ``None`` where it may be tried.

    Only new text is searched for hidden characters, so that an edit may take old ones out.
    """
    if len(edit.target) + len(edit.content) > limits.max_edit_chars:
        return TOO_LONG
    if any(map(is_hidden, set(edit.content))):
        return INVISIBLE
    return None


def text_refusal(text: str, document: str, before: str, limits: EditLimits) -> str | None:
    """Return why a text may not enter a document, or ``None`` where it may.

    Args:
        text: The new text.
        document: The document with the text in it.
        before: The document without it. One that is too long already may shrink.
        limits: How long both may become.
    """
    if len(text) > limits.max_edit_chars:
        return TOO_LONG
    if len(document) > max(limits.max_skill_chars, len(before)):
        return TOO_LONG
    return INVISIBLE if any(map(is_hidden, set(text))) else None


class UsableEdits(NamedTuple):
    """What a reply's list of edits comes to.

    Attributes:
        edits: (number from 1, edit, the object it was read from); a dropped edit keeps its number.
        notes: Why each dropped edit was dropped.
    """

    edits: list[tuple[int, Edit, Mapping[str, Any]]]
    notes: list[str]


def usable_edits(items: Sequence[Any], skill: str, limits: EditLimits) -> UsableEdits:
    """Read edits as a model wrote them; one that cannot be read or is refused is dropped."""
    found = UsableEdits([], [])
    for number, written in enumerate(items, start=1):
        item = _without_nulls(written)
        wrong = _malformation(item)
        if wrong is None:
            edit = Edit(item.get("op", "append"), item.get("content", ""), item.get("target", ""))
            edit.target = as_in(skill, edit.target)
            wrong = refusal(edit, limits)
        if wrong is None:
            found.edits.append((number, edit, item))
        else:
            found.notes.append(f"e{number} is dropped: {wrong}")
    return found


def as_in(skill: str, target: str) -> str:
    """Return an anchor as the skill has it, where the model quotes a tag in its defused form."""
    restored = restore_tags(target)
    return restored if target not in skill and restored in skill else target


def _without_nulls(item: Any) -> Any:
    """Drop fields that are null, as a model writes what it has nothing to say about."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if value is not None}


def _malformation(item: object) -> str | None:
    """Say what is wrong with an edit as a model wrote it, or ``None`` where it can be read."""
    if not isinstance(item, Mapping):
        return f"it is a {type(item).__name__}, not an object"
    op = item.get("op", "append")
    if op not in EDIT_OPS:
        return f"op {str(op)[:40]!r} is none of {', '.join(EDIT_OPS)}"
    for name in ("target", "content"):
        if not isinstance(item.get(name, ""), str):
            return f"{name} is a {type(item[name]).__name__}, not a text"
    if op in ("append", "insert_after") and not item.get("content", "").strip():
        return f"{op} has nothing to add"
    return None

"""What analysts propose in each update mode: edits, suggestions, or whole skills.

A suggestion and a rewritten skill are edits whose wording is not final or whose place is the whole
document. So provenance, support, merging and ranking are the same for all three.

Source: SkillOpt (microsoft/SkillOpt), payloads of its update modes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.core import Edit
from skillwright.textopt.lint import EditLimits, UsableEdits, refusal, usable_edits
from skillwright.textopt.proposal import Proposal
from skillwright.textopt.update_modes import UpdateMode

SUGGESTION_TYPES = (
    "add_rule",
    "remove_rule",
    "merge_rules",
    "reorganize",
    "compress",
    "clarify",
)


@dataclass
class Suggestion(Edit):
    """A change of the skill in words; ``content`` is the instruction to whoever rewrites it.

    Attributes:
        kind: One of `SUGGESTION_TYPES`; its documented name is ``type``.
        priority_hint: How much the analyst thinks of it, in its own words.
    """

    kind: str = "clarify"
    title: str = ""
    motivation: str = ""
    priority_hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the documented fields, and the counted ones where they are set."""
        return {**_suggestion(self), **_counted(self)}


@dataclass
class SkillCandidate(Edit):
    """A whole skill; ``content`` is its text.

    Attributes:
        change_summary: What it does differently, a sentence each.
    """

    title: str = ""
    change_summary: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented fields, and the counted ones where they are set."""
        return {**_candidate(self), **_counted(self)}


ReadItems = Callable[[Sequence[Any], str, EditLimits], UsableEdits]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """The form of what is proposed in an update mode.

    Attributes:
        suffix: What the names of its prompts end with.
        noun: What the items are called in a prompt.
        read: Reads a reply's items against the skill and the limits; those that cannot be used
            are dropped with a note.
        fields: An item as a merge or a ranking is shown it.
    """

    suffix: str
    noun: str
    read: ReadItems
    fields: Callable[[Edit], dict[str, Any]]


def item_form(mode: UpdateMode) -> ItemForm:
    """Return the form of a mode's items."""
    return _FORMS[mode]


def listed(mode: UpdateMode, proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
    """Return proposals as rankings, budget decisions and rewrites are shown them."""
    fields = item_form(mode).fields
    return [
        {
            "index": index,
            **fields(proposal.edit),
            "support": proposal.support,
            "source_type": proposal.source_type,
        }
        for index, proposal in enumerate(proposals)
    ]


def label(edit: Edit) -> tuple[str, str]:
    """Return an item's operation and its text, as later steps are told about it."""
    match edit:
        case Suggestion():
            return edit.kind, edit.content
        case SkillCandidate():
            return "rewrite", "; ".join(edit.change_summary) or edit.title
        case _:
            return edit.op, edit.content


def _edit_fields(edit: Edit) -> dict[str, Any]:
    return {"op": edit.op, "target": edit.target, "content": edit.content}


def _suggestion(edit: Edit) -> dict[str, Any]:
    names = {"type": "kind", "title": "title", "motivation": "motivation"}
    fields = {name: getattr(edit, attribute, "") for name, attribute in names.items()}
    hint = {"priority_hint": getattr(edit, "priority_hint", "")}
    return {**fields, "instruction": edit.content, **hint}


def _candidate(edit: Edit) -> dict[str, Any]:
    summary = list(getattr(edit, "change_summary", ()))
    title = getattr(edit, "title", "")
    return {"title": title, "change_summary": summary, "new_skill": edit.content}


def _counted(edit: Edit) -> dict[str, Any]:
    names = ("support_count", "source_type", "merge_level")
    return {name: getattr(edit, name) for name in names if getattr(edit, name) is not None}


def _read_suggestions(items: Sequence[Any], skill: str, limits: EditLimits) -> UsableEdits:
    del skill
    found = UsableEdits([], [])
    for number, item in _objects(items, found):
        instruction = item.get("instruction")
        if not isinstance(instruction, str) or not instruction.strip():
            found.notes.append(f"e{number} is dropped: it has no instruction")
            continue
        kind = item.get("type")
        suggestion = Suggestion(
            "append",
            instruction.strip(),
            kind=str(kind) if kind in SUGGESTION_TYPES else "clarify",
            title=_text(item, "title"),
            motivation=_text(item, "motivation"),
            priority_hint=_text(item, "priority_hint"),
        )
        wrong = refusal(suggestion, limits)
        if wrong:
            found.notes.append(f"e{number} is dropped: {wrong}")
        else:
            found.edits.append((number, suggestion, item))
    return found


def _read_candidates(items: Sequence[Any], skill: str, limits: EditLimits) -> UsableEdits:
    del skill
    found = UsableEdits([], [])
    for number, item in _objects(items, found):
        text = item.get("new_skill")
        if not isinstance(text, str) or not text.strip():
            found.notes.append(f"e{number} is dropped: it has no new_skill")
        elif len(text) > limits.max_skill_chars:
            found.notes.append(f"e{number} is dropped: its skill is longer than a skill may be")
        else:
            candidate = SkillCandidate(
                "replace",
                text,
                title=_text(item, "title"),
                change_summary=texts(item.get("change_summary")),
            )
            found.edits.append((number, candidate, item))
    return found


def _objects(items: Sequence[Any], found: UsableEdits) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, item in enumerate(items, start=1):
        if isinstance(item, Mapping):
            yield number, item
        else:
            kind = type(item).__name__
            found.notes.append(f"e{number} is dropped: it is a {kind}, not an object")


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """Read a list of texts; a single text is a list of one, and what is no text is left out."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [text.strip() for text in listed if isinstance(text, str) and text.strip()]


_FORMS: Mapping[UpdateMode, ItemForm] = {
    UpdateMode.PATCH: ItemForm("", "edits", usable_edits, _edit_fields),
    UpdateMode.REWRITE: ItemForm("_rewrite", "suggestions", _read_suggestions, _suggestion),
    UpdateMode.FULL_REWRITE: ItemForm("_full_rewrite", "skill", _read_candidates, _candidate),
}

"""Proposed edits with their provenance."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from skillwright.asking import AskFault
from skillwright.core import ConfigError, Edit, did_you_mean
from skillwright.core.edits import EDIT_OPS, SourceType
from skillwright.core.fence import hidden_character, plain_text, restore_tags
from skillwright.core.jsonio import encode_fields
from skillwright.models.leftovers import DROPPED
from skillwright.models.repairs import restored_latex, restored_line_breaks
from skillwright.textopt.edit_shapes import passage, unread_fields, with_known_names, without_nulls


class Evidence(NamedTuple):
    """Turns of one trajectory that support an edit; no turns means the whole trajectory."""

    trajectory: str
    turns: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"id", "turns"}``."""
        return {"id": self.trajectory, "turns": list(self.turns)}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit with its provenance.

    Attributes:
        id: Origin of the edit: ``s3.f0.e1`` is edit 1 of failure minibatch 0 in step 3,
            ``s3.f.m2.0.e1`` edit 1 of the first merge on level 2 of the failure tree.
        edit: The edit; its ``support_count`` and ``source_type`` repeat those of the proposal.
        source_type: Side of its evidence; failures, if both suggested it.
        evidence: The trajectories that support it, each once.
        parents: Proposals that were merged into it; empty for an analyst's own.
    """

    id: str
    edit: Edit
    source_type: SourceType
    evidence: tuple[Evidence, ...] = ()
    parents: tuple[str, ...] = ()
    prompt_digest: str = ""

    @property
    def support(self) -> int:
        """The number of distinct trajectories that support the edit."""
        return len({item.trajectory for item in self.evidence})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the support as a JSON object."""
        evidence = [item.to_dict() for item in self.evidence]
        return {**encode_fields(self), "evidence": evidence, "support": self.support}


AnalystFault = AskFault
"""A failed call of the optimizer model. It never means "no edits"."""


def united(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Unite evidence: each trajectory once, in order of first mention, its turns sorted."""
    turns: dict[str, set[int]] = {}
    for item in evidence:
        turns.setdefault(item.trajectory, set()).update(item.turns)
    return tuple(Evidence(trajectory, tuple(sorted(at))) for trajectory, at in turns.items())


# Source: SkillOpt (microsoft/SkillOpt): names, aliases and payload keys of modes. There an unknown
# update mode silently means ``patch``; here it is an error.


Mode = TypeVar("Mode", bound=StrEnum)


class UpdateMode(StrEnum):
    """The way from analysts' findings to a candidate."""

    PATCH = "patch"
    """Edits are merged, ranked and applied."""
    REWRITE = "rewrite_from_suggestions"
    """Suggestions are merged and ranked, and one call rewrites the skill by them."""
    FULL_REWRITE = "full_rewrite_minibatch"
    """Every analyst rewrites the skill, and the rewrites are merged."""

    @property
    def payload_key(self) -> str:
        """The key of the items in a reply."""
        return _PAYLOAD_KEYS[self]


_PAYLOAD_KEYS: Mapping[UpdateMode, str] = {
    UpdateMode.PATCH: "edits",
    UpdateMode.REWRITE: "revise_suggestions",
    UpdateMode.FULL_REWRITE: "skill_candidates",
}
UPDATE_ALIASES: Mapping[str, UpdateMode] = {
    **{mode.value: mode for mode in UpdateMode},
    "edits": UpdateMode.PATCH,
    **dict.fromkeys(("rewrite", "suggestions", "rewrite_suggestions"), UpdateMode.REWRITE),
    **dict.fromkeys(
        ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
        UpdateMode.FULL_REWRITE,
    ),
}


class BudgetControl(StrEnum):
    """The source of a step's edit budget."""

    FIXED = "fixed"
    """The schedule."""
    AUTONOMOUS = "autonomous"
    """The optimizer, after it has seen the merged edits."""
    NONE = "none"
    """No limit: every merged edit is made."""


class RankFallback(StrEnum):
    """The edits of a step if the model's ranking is unusable."""

    SUPPORT = "support"
    """Those with the most supporting trajectories, the earlier of two equals first."""
    ORDER = "order"
    """The first ones, as in SkillOpt."""


CONTROL_ALIASES: Mapping[str, BudgetControl] = {
    **{control.value: control for control in BudgetControl},
    **dict.fromkeys(("manual", "scheduler", "scheduled"), BudgetControl.FIXED),
    **dict.fromkeys(("auto", "optimizer"), BudgetControl.AUTONOMOUS),
    **dict.fromkeys(("off", "no_lr"), BudgetControl.NONE),
}


def parse_update_mode(name: str) -> UpdateMode:
    """Parse an update mode or alias, ignoring case.

    Raises:
        ConfigError: The mode is unknown; the message names the nearest.
    """
    return parse_mode("skill update mode", name, UPDATE_ALIASES)


def parse_budget_control(name: str) -> BudgetControl:
    """Parse an LR control mode or alias, ignoring case.

    Raises:
        ConfigError: The mode is unknown; the message names the nearest.
    """
    return parse_mode("LR control mode", name, CONTROL_ALIASES)


def parse_mode(kind: str, name: str, known: Mapping[str, Mode]) -> Mode:
    """Parse a mode or alias, ignoring case."""
    found = known.get(name.strip().lower())
    if found is None:
        raise ConfigError(f"there is no {kind} {name!r}. {did_you_mean(name, known)}")
    return found


TOO_LONG = "refused_too_long"
INVISIBLE = "refused_invisible_characters"


@dataclass(frozen=True, slots=True)
class EditLimits:
    """The limits on text in a skill.

    Attributes:
        max_edit_chars: Maximum characters of one edit's target and content together.
        max_skill_chars: Maximum characters of a candidate; a longer skill may only shrink.
        as_written: Edits are taken as a model wrote them, as in SkillOpt: nothing in them is
            repaired, merged or left out.
    """

    max_edit_chars: int = 20_000
    max_skill_chars: int = 60_000
    as_written: bool = False


def refusal(edit: Edit, limits: EditLimits) -> str | None:
    """Return the status under which an edit is refused, or ``None``; see `edit_refusal`."""
    if len(edit.target) + len(edit.content) > limits.max_edit_chars:
        return TOO_LONG
    return INVISIBLE if hidden_character(edit.content) else None


def edit_refusal(edit: Edit, limits: EditLimits) -> str | None:
    """Return why an edit is refused, in words, or ``None``.

    Only new text is searched for hidden characters, so an edit may remove old ones.
    """
    length = len(edit.target) + len(edit.content)
    if length > limits.max_edit_chars:
        return f"its {length:,} characters are more than the {limits.max_edit_chars:,} of an edit"
    hidden = hidden_character(edit.content)
    return f"it holds the hidden character {hidden}" if hidden else None


def text_refusal(text: str, document: str, before: str, limits: EditLimits) -> str | None:
    """Return why ``text`` may not enter a document, in words, or ``None``.

    Args:
        text: The new text.
        document: The document with the text.
        before: The document without it; if it is too long already, it may shrink.
        limits: The limits on both.
    """
    if len(document) > max(limits.max_skill_chars, len(before)):
        return (
            f"with it, the document would have {len(document):,} characters, more than "
            f"{limits.max_skill_chars:,}"
        )
    return edit_refusal(Edit("append", text), limits)


def begun(skill: str, limits: EditLimits) -> str:
    """Return a changed skill without blank lines at its start."""
    return skill if limits.as_written else skill.lstrip("\n")


def cleaned(text: str, limits: EditLimits) -> str:
    """Return a text as it may enter a skill: plain line breaks, LaTeX with its backslashes."""
    if limits.as_written:
        return text
    return plain_text(restored_latex(restored_line_breaks(text)))


def change_of(text: str, new: str) -> str:
    """Describe what `cleaned` changed, or return an empty text."""
    if text == new:
        return ""
    broken = restored_line_breaks(text)
    latex = restored_latex(broken)
    found = ["its line breaks were escaped twice"] if broken != text else []
    found += ["the backslashes of its LaTeX were restored"] if latex != broken else []
    plain = plain_text(latex)
    if plain.count("\n") != latex.count("\n") or "\r" in latex:
        found.append("its line breaks are written as line feeds")
    if "\xad" in latex:
        found.append("its soft hyphens are left out")
    if latex.startswith("\ufeff"):
        found.append("its byte order mark is left out")
    return ", ".join(found)


class UsableEdits(NamedTuple):
    """The usable and refused edits of a reply.

    Attributes:
        edits: (number from 1, edit, source object); numbers count dropped edits too.
        notes: Reasons for dropped edits.
        repairs: What was done to read the others.
    """

    edits: list[tuple[int, Edit, Mapping[str, Any]]]
    notes: list[str]
    repairs: list[str]


def usable_edits(items: Sequence[Any], skill: str, limits: EditLimits) -> UsableEdits:
    """Read a model's edits; drop unreadable and refused ones, with the cause."""
    found = UsableEdits([], [], [])
    for number, written in enumerate(items, start=1):
        repairs: list[str] = []
        item = without_nulls(written)
        if not limits.as_written:
            item = with_known_names(item, repairs)
        wrong = _malformation(item)
        if wrong is None and item.get("op") == "replace" and "content" not in item:
            wrong = None if limits.as_written else "replace has no content"
        if wrong is None:
            content, target = item.get("content", ""), item.get("target", "")
            edit = Edit(item.get("op", "append"), cleaned(content, limits), as_in(skill, target))
            if edit.target not in skill:
                edit.target = as_in(skill, cleaned(target, limits))
                edit.target = _quoted_in(skill, edit.target, limits, repairs)
            if not limits.as_written and edit.op == "replace" and edit.content:
                edit.target = _without_other_breaks(edit.target, edit.content)
            repairs += filter(None, [change_of(content, edit.content)])
            wrong = edit_refusal(edit, limits)
        if wrong is None:
            found.edits.append((number, edit, item))
            found.repairs.extend(f"e{number}: {note}" for note in repairs)
            lost = () if limits.as_written else unread_fields(item)
            found.notes.extend(f"part of e{number}{DROPPED}{note}" for note in lost)
        else:
            found.notes.append(f"e{number} is dropped: {wrong}")
    return found


def as_in(skill: str, target: str) -> str:
    """Return an anchor as in the skill, if the model quotes a tag in its escaped form."""
    restored = restore_tags(target)
    return restored if target not in skill and restored in skill else target


def _without_other_breaks(target: str, content: str) -> str:
    """Cut line breaks at the ends of an anchor that its replacement lacks: lines stay apart."""
    target = target if content.startswith("\n") else target.lstrip("\n")
    return target if content.endswith("\n") else target.rstrip("\n")


def _quoted_in(skill: str, target: str, limits: EditLimits, repairs: list[str]) -> str:
    """Return the passage of the skill that an anchor means, else the anchor."""
    if limits.as_written or target in skill or (found := passage(skill, target)) is None:
        return target
    repairs.append("its target was found with other blanks, quotes or marks")
    return found


def _malformation(item: object) -> str | None:
    """Return why an edit is unreadable, or ``None``."""
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


# Suggestions and rewritten skills are edits too, without final wording or a place in the document,
# so provenance, support, merging and ranking are the same in every update mode.
# Source: SkillOpt (microsoft/SkillOpt), payloads of its update modes.


SUGGESTION_TYPES = ("add_rule", "remove_rule", "merge_rules", "reorganize", "compress", "clarify")


@dataclass
class Suggestion(Edit):
    """A change in words; ``content`` is the instruction to the model that rewrites the skill.

    Attributes:
        kind: One of `SUGGESTION_TYPES`; its documented name is ``type``.
        priority_hint: The analyst's statement of its importance.
    """

    kind: str = "clarify"
    title: str = ""
    motivation: str = ""
    priority_hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the documented fields, and the counted ones if set."""
        return {**_suggestion(self), **_counted(self)}


@dataclass
class SkillCandidate(Edit):
    """A whole skill: ``content`` is its text, ``change_summary`` one sentence per change."""

    title: str = ""
    change_summary: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the documented fields, and the counted ones if set."""
        return {**_candidate(self), **_counted(self)}


ReadItems = Callable[[Sequence[Any], str, EditLimits], UsableEdits]


@dataclass(frozen=True, slots=True)
class ItemForm:
    """The form of the proposals in an update mode.

    Attributes:
        suffix: Suffix of its prompts' names.
        noun: Name of the items in a prompt.
        read: Function that reads a reply's items; it drops unusable ones with a note.
        fields: Function that returns an item for merge and ranking prompts.
    """

    suffix: str
    noun: str
    read: ReadItems
    fields: Callable[[Edit], dict[str, Any]]


def item_form(mode: UpdateMode) -> ItemForm:
    """Return the form of a mode's items."""
    return _FORMS[mode]


def listed(mode: UpdateMode, proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
    """Return proposals for the prompts of rankings, budget decisions and rewrites."""
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
    """Return an item's operation and text for later steps."""
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
    found = UsableEdits([], [], [])
    for number, item in _objects(items, found):
        instruction = _text(item, "instruction")
        if not instruction:
            found.notes.append(f"e{number} is dropped: it has no instruction")
            continue
        kind = item.get("type")
        suggestion = Suggestion(
            "append",
            cleaned(instruction, limits),
            kind=str(kind) if kind in SUGGESTION_TYPES else "clarify",
            title=_text(item, "title"),
            motivation=_text(item, "motivation"),
            priority_hint=_text(item, "priority_hint"),
        )
        wrong = edit_refusal(suggestion, limits)
        if wrong:
            found.notes.append(f"e{number} is dropped: {wrong}")
        else:
            found.edits.append((number, suggestion, item))
    return found


def _read_candidates(items: Sequence[Any], skill: str, limits: EditLimits) -> UsableEdits:
    found = UsableEdits([], [], [])
    for number, item in _objects(items, found):
        text = item.get("new_skill")
        if not isinstance(text, str) or not text.strip():
            found.notes.append(f"e{number} is dropped: it has no new_skill")
        elif len(text) > limits.max_skill_chars:
            found.notes.append(f"e{number} is dropped: its skill is longer than a skill may be")
        else:
            candidate = SkillCandidate(
                "replace",
                cleaned(text, limits),
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
            found.notes.append(f"e{number} is dropped: {_malformation(item)}")


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """Read a list of texts; a single text is a list of one, other values are dropped."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [text.strip() for text in listed if isinstance(text, str) and text.strip()]


_FORMS: Mapping[UpdateMode, ItemForm] = {
    UpdateMode.PATCH: ItemForm("", "edits", usable_edits, _edit_fields),
    UpdateMode.REWRITE: ItemForm("_rewrite", "suggestions", _read_suggestions, _suggestion),
    UpdateMode.FULL_REWRITE: ItemForm("_full_rewrite", "skill", _read_candidates, _candidate),
}

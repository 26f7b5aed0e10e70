"""Edits of a skill document: their wire types, and how their anchors are found and applied.

An edit is applied byte for byte, except where it would forge or break into a protected region:
such an edit is skipped. Source: SkillOpt (microsoft/SkillOpt), API reference.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from skillwright.core.errors import ContractError
from skillwright.core.jsonio import encode, encode_fields
from skillwright.core.skill import protected_regions, without_markers

EditOp = Literal["append", "insert_after", "replace", "delete"]
SourceType = Literal["failure", "success"]

EDIT_OPS: tuple[str, ...] = get_args(EditOp)
PREVIEW_CHARS = 200


@dataclass
class Edit:
    """One edit, as an optimizer model proposes it.

    Attributes:
        content: The new text; ignored by ``delete``.
        target: The exact text to find; ignored by ``append``.
        support_count: Trajectories behind the edit, counted from the patches that it came from.
        merge_level: The level of the merge tree at which it was written, or ``None``.
        update_target: Which part of the skill it is meant for.
    """

    op: EditOp
    content: str = ""
    target: str = ""
    support_count: int | None = None
    source_type: SourceType | None = None
    merge_level: int | None = None
    update_origin: str = ""
    update_target: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return ``op`` and ``content`` always, and the other fields where they are set."""
        always = ("op", "content")
        return {
            name: value
            for name, value in encode_fields(self).items()
            if name in always or value not in (None, "")
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read an edit: no ``op`` means ``append``, unknown keys are dropped, nothing is cast.

        Raises:
            ContractError: ``data`` is not a mapping.
        """
        refuse_other(data, "an edit")
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        return cls(**{"op": "append", **known})


@dataclass
class Patch:
    """Edits that belong together, with the reasoning behind them."""

    edits: list[Edit] = field(default_factory=list)
    reasoning: str = ""
    ranking_details: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return ``reasoning`` and ``edits``, and ``ranking_details`` where it is set."""
        data = {"reasoning": self.reasoning, "edits": encode(self.edits)}
        if self.ranking_details is not None:
            data["ranking_details"] = self.ranking_details
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read a patch; edits that are not objects are kept as they are.

        Raises:
            ContractError: ``data`` is not a mapping, or its ``edits`` are not a list.
        """
        refuse_other(data, "a patch")
        edits = data.get("edits", [])
        if not isinstance(edits, list | tuple):
            raise ContractError(f"the edits of a patch are {_shown(edits)}, not a list")
        return cls(
            edits=[Edit.from_dict(edit) if isinstance(edit, dict) else edit for edit in edits],
            reasoning=data.get("reasoning", ""),
            ranking_details=data.get("ranking_details"),
        )


def refuse_other(data: object, what: str) -> None:
    """Raise a ContractError if a value of a model or an adapter is not a mapping."""
    if not isinstance(data, Mapping):
        raise ContractError(f"{what} must be a mapping of its fields, not {_shown(data)}")


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def apply_edit(skill: str, edit: Edit) -> str:
    """Apply one edit and return the new text; an edit that cannot be applied changes nothing."""
    return apply_patch(skill, Patch([edit]))


def apply_patch(skill: str, patch: Patch) -> str:
    """Apply a patch's edits in order to the evolving text."""
    return apply_patch_with_report(skill, patch)[0]


def apply_patch_with_report(skill: str, patch: Patch) -> tuple[str, list[dict[str, Any]]]:
    """Apply a patch's edits in order to the evolving text, and report the status of each.

    Matching is exact, with no normalization of white space. The first occurrence counts: where it
    lies in a protected region, the edit is skipped.

    Returns:
        The new text, and one row per edit: ``index`` (from 1), ``op``, ``target`` and
        ``content_preview`` (200 characters each) and ``status`` (``applied_*``, ``skipped_*``
        or ``error``).
    """
    report = []
    for index, edit in enumerate(patch.edits, start=1):
        try:
            skill, status = _apply(skill, edit)
        except (AttributeError, TypeError):  # a field of the wrong type, from a model's JSON
            status = "error"
        report.append(
            {
                "index": index,
                "op": getattr(edit, "op", ""),
                "target": str(getattr(edit, "target", "") or "")[:PREVIEW_CHARS],
                "content_preview": str(getattr(edit, "content", "") or "")[:PREVIEW_CHARS],
                "status": status,
            }
        )
    return skill, report


def _apply(skill: str, edit: Edit) -> tuple[str, str]:
    new, status = _attempt(skill, edit)
    if _regions(new) != _regions(skill):
        return skill, "skipped_protected_region"
    return new, status


def _regions(skill: str) -> list[str]:
    return [skill[span.start : span.end] for span in protected_regions(skill)]


def _attempt(skill: str, edit: Edit) -> tuple[str, str]:
    content = without_markers(edit.content)
    if edit.op == "append":
        return _append(skill, content, "applied_append")
    if edit.op not in EDIT_OPS:
        return skill, "skipped_unknown_op"
    at = skill.find(edit.target) if edit.target else -1
    if at >= 0 and _is_protected(skill, at, at + len(edit.target)):
        return skill, "skipped_protected_region"
    if edit.op == "insert_after":
        if at < 0:
            return _append(skill, content, "applied_insert_after_fallback")
        line_end = skill.find("\n", at + len(edit.target))
        cut = len(skill) if line_end < 0 else line_end + 1
        return f"{skill[:cut]}\n{content}\n{skill[cut:]}", "applied_insert_after"
    if not edit.target:
        return skill, f"skipped_{edit.op}_missing_target"
    if at < 0:
        return skill, f"skipped_{edit.op}_target_not_found"
    new = content if edit.op == "replace" else ""
    return skill[:at] + new + skill[at + len(edit.target) :], f"applied_{edit.op}"


def _append(skill: str, content: str, status: str) -> tuple[str, str]:
    """Append below the body; regions stay at the end of the document."""
    fallback = status.endswith("_fallback")
    regions = protected_regions(skill)
    if not regions:
        return f"{skill.rstrip()}\n\n{content}\n", f"{status}_append" if fallback else status
    head, tail = skill[: regions[0].start].rstrip(), skill[regions[0].start :]
    where = "before_protected_region"
    return f"{head}\n\n{content}\n\n{tail}", f"{status}_{where}"


def _is_protected(skill: str, start: int, end: int) -> bool:
    return any(start < span.end and end > span.start for span in protected_regions(skill))

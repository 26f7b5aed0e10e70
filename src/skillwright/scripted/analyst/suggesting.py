"""Suggestions instead of edits: the same findings, in words for whoever rewrites the skill.

A suggestion of ours quotes what it replaces, so that it can be read back as the edit that it means.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from skillwright.core import Edit, Patch, apply_patch
from skillwright.scripted.analyst.meaning import text_of
from skillwright.scripted.analyst.merging import merge_patches
from skillwright.scripted.analyst.prompt import Reply, read_listing
from skillwright.scripted.analyst.ranking import ranked
from skillwright.scripted.analyst.writing import edit

_TYPES: Final = {"append": "add_rule", "insert_after": "add_rule", "delete": "remove_rule"}
_REPLACE = re.compile(r"Instead of \u201c(.*?)\u201d write: (.*)", re.DOTALL)
_INSERT = re.compile(r"Below \u201c(.*?)\u201d write: (.*)", re.DOTALL)
_DELETE = re.compile(r"Take out \u201c(.*?)\u201d", re.DOTALL)
_ADD: Final = "Write: "

Item = Mapping[str, Any]


def merge_suggestions(user: str) -> Reply:
    """Answer a merge prompt as for the edits that the suggestions mean."""
    listing = read_listing(user, "Patches")
    reply = merge_patches([_as_patch(patch) for patch in listing.items])
    merged = [{**_suggestion(one), "sources": one["sources"]} for one in reply.pop("edits")]
    return {**reply, "revise_suggestions": merged}


def rank_suggestions(user: str) -> Reply:
    """Answer a rank prompt as for the edits that the suggestions mean."""
    listing = read_listing(user, "Suggestions")
    return ranked(listing, [_as_edit(one) for one in listing.items])


def rewrite(user: str) -> Reply:
    """Answer a rewrite prompt: do to the text what the suggestions say."""
    listing = read_listing(user, "Suggestions")
    meant = [_as_edit(one) for one in listing.items]
    edits = [Edit(one["op"], one["content"], one["target"]) for one in meant]
    return {
        "reasoning": f"{len(edits)} suggestions are worked in, in their order.",
        "new_skill": apply_patch(listing.skill, Patch(edits)).strip(),
        "change_summary": [text_of(one, "title") or "a change" for one in listing.items],
    }


def as_suggestions(reply: Reply) -> Reply:
    """Put the edits of an analyst's reply into words."""
    suggested = [
        {**_suggestion(one), "evidence": one["evidence"]} for one in reply["patch"]["edits"]
    ]
    return {**reply, "patch": {"revise_suggestions": suggested}}


def _suggestion(one: Item) -> dict[str, Any]:
    op, target, content = (text_of(one, name) for name in ("op", "target", "content"))
    match op:
        case "replace":
            instruction = f"Instead of \u201c{target}\u201d write: {content}"
        case "insert_after":
            instruction = f"Below \u201c{target}\u201d write: {content}"
        case "delete":
            instruction = f"Take out \u201c{target}\u201d"
        case _:
            instruction = _ADD + content
    lines = (content or target).strip().splitlines() or [""]
    return {
        "type": _TYPES.get(op, "clarify"),
        "title": lines[-1].lstrip("- ")[:60],
        "motivation": "The trajectories that are cited show it.",
        "instruction": instruction,
        "priority_hint": "",
    }


def _as_edit(one: Item) -> dict[str, Any]:
    """Return the edit that a suggestion means; one in other words adds a rule."""
    text = text_of(one, "instruction")
    for op, pattern in (("replace", _REPLACE), ("insert_after", _INSERT), ("delete", _DELETE)):
        found = pattern.fullmatch(text)
        if found:
            content = found[2] if op != "delete" else ""
            return {**one, **edit(op, found[1], content)}
    return {**one, **edit("append", "", text.removeprefix(_ADD))}


def _as_patch(patch: Item) -> dict[str, Any]:
    listed = patch.get("edits")
    found = listed if isinstance(listed, list) else []
    return {**patch, "edits": [_as_edit(one) for one in found if isinstance(one, dict)]}

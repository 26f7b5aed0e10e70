"""Whole skills instead of edits: what an analyst finds is worked into the document at once."""

from collections.abc import Mapping
from typing import Any

from skillwright.core import Edit, Patch, apply_patch
from skillwright.scripted.analyst.meaning import are_alike, says, text_of
from skillwright.scripted.analyst.merging import support_of
from skillwright.scripted.analyst.prompt import Reply, read_listing, read_reading


def merge_skills(user: str) -> Reply:
    """Answer a merge prompt: take the skill with most support, and add what others say besides."""
    listing = read_listing(user, "Patches")
    versions = [one for patch in listing.items for one in _versions(patch)]
    versions.sort(key=lambda one: -support_of(one))
    lines: list[str] = []
    for one in versions:
        for line in text_of(one, "new_skill").splitlines():
            if not lines or one is versions[0] or _is_new_line(line, lines):
                lines.append(line)
    merged = {
        "title": "all versions",
        "change_summary": list(dict.fromkeys(s for one in versions for s in _summary(one))),
        "new_skill": "\n".join(lines).strip(),
        "sources": [text_of(one, "id") for one in versions],
    }
    return {
        "reasoning": f"{len(versions)} versions are put together.",
        "skill_candidates": [merged] if versions else [],
    }


def as_whole_skill(user: str, reply: Reply) -> Reply:
    """Work the edits of an analyst's reply into the skill of its prompt."""
    reading = read_reading(user)
    found = reply["patch"]["edits"]
    edits = [Edit(one["op"], one["content"], one["target"]) for one in found]
    evidence = {item["id"]: item for one in found for item in one["evidence"]}
    candidate = {
        "title": "what the trajectories teach",
        "change_summary": [" ".join((e.content or f"without {e.target}").split()) for e in edits],
        "new_skill": apply_patch(reading.skill, Patch(edits)).strip(),
        "evidence": list(evidence.values()),
    }
    return {**reply, "patch": {"skill_candidates": [candidate] if edits else []}}


def _versions(patch: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = patch.get("edits")
    found = listed if isinstance(listed, list) else []
    return [one for one in found if isinstance(one, Mapping) and text_of(one, "new_skill")]


def _is_new_line(line: str, known: list[str]) -> bool:
    """Tell whether a line says something that the known ones neither say nor deny."""
    if line in known or not line.strip() or line.startswith("#"):
        return False
    rules = {say.rule for text in known for say in says(text)}
    if any(say.rule in rules for say in says(line)):
        return False
    return not any(are_alike(line, one) for one in known if one.strip())


def _summary(one: Mapping[str, Any]) -> list[str]:
    listed = one.get("change_summary")
    return [s for s in listed if isinstance(s, str)] if isinstance(listed, list) else []

"""How many analysts' edits become one list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.scripted.analyst.meaning import are_alike, says, text_of
from skillwright.scripted.analyst.prompt import Reply, read_listing
from skillwright.scripted.skilltext import Rule


@dataclass(slots=True)
class _Group:
    """Edits that say the same."""

    members: list[Mapping[str, Any]] = field(default_factory=list)  # in the order given
    comes_from_failures: bool = False  # a failure suggested one of them

    @property
    def support(self) -> int:
        """How many trajectories speak for them together."""
        return sum(map(support_of, self.members))

    @property
    def best(self) -> Mapping[str, Any]:
        """The member that most trajectories speak for."""
        return max(self.members, key=support_of)


def merge(user: str) -> Reply:
    """Answer a merge prompt: say each thing once, settle contradictions, keep the rest."""
    return merge_patches(read_listing(user, "Patches").items)


def merge_patches(patches: Sequence[Mapping[str, Any]]) -> Reply:
    """Merge patches of edits, and return the reply."""
    groups = _grouped(patches)
    # Failures first; then what most trajectories speak for.
    groups.sort(key=lambda group: (not group.comes_from_failures, -group.support))
    kept = _settled(groups)
    edits = _with_free_anchors([_merged(group) for group in kept])
    count = sum(len(group.members) for group in groups)
    return {
        "reasoning": f"{count} edits say {len(groups)} different things; {len(groups) - len(kept)} "
        "of these contradict something that more trajectories speak for, and are dropped.",
        "edits": edits,
    }


def support_of(edit: Mapping[str, Any]) -> int:
    """Return an edit's support as a prompt gives it; 0 where it is no number."""
    support = edit.get("support")
    return support if isinstance(support, int) else 0


def _grouped(patches: Sequence[Mapping[str, Any]]) -> list[_Group]:
    groups: list[_Group] = []
    for patch in patches:
        edits = patch.get("edits")
        for edit in edits if isinstance(edits, list) else ():
            if not isinstance(edit, dict) or not isinstance(edit.get("id"), str):
                continue
            group = next((one for one in groups if _say_the_same(one.members[0], edit)), None)
            if group is None:
                group = _Group()
                groups.append(group)
            group.members.append(edit)
            group.comes_from_failures |= patch.get("source_type") == "failure"
    return groups


def _say_the_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if "delete" in (one.get("op"), other.get("op")):
        return all(text_of(one, name) == text_of(other, name) for name in ("op", "target"))
    return are_alike(text_of(one, "content"), text_of(other, "content"))


def _settled(groups: Sequence[_Group]) -> list[_Group]:
    """Drop what contradicts something with more support; the earlier of two equals stays."""
    told: dict[Rule, bool] = {}
    dropped: list[_Group] = []
    for group in sorted(groups, key=lambda group: -group.support):
        said = {say.rule: say.wanted for say in says(text_of(group.best, "content"))}
        if any(told.get(rule, wanted) != wanted for rule, wanted in said.items()):
            dropped.append(group)
        else:
            told.update(said)
    return [group for group in groups if group not in dropped]


def _merged(group: _Group) -> dict[str, Any]:
    best = group.best
    return {
        "op": text_of(best, "op") or "append",
        "target": text_of(best, "target"),
        "content": text_of(best, "content"),
        "sources": [edit["id"] for edit in group.members],
    }


def _with_free_anchors(edits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let no edit rely on a line that one before it takes away, or repeat a heading."""
    gone: set[str] = set()
    headings: set[str] = set()
    kept: list[dict[str, Any]] = []
    for edit in edits:
        if edit["target"] in gone:
            if edit["op"] == "delete":
                continue
            edit = {**edit, "op": "append", "target": ""}
        elif edit["op"] in {"replace", "delete"}:
            gone.add(edit["target"])
        kept.append({**edit, "content": _without_heading(edit["content"], headings)})
    return kept


def _without_heading(content: str, headings: set[str]) -> str:
    first, _, rest = content.partition("\n")
    if not first.startswith("#") or not rest.strip():
        return content
    if first in headings:
        return rest
    headings.add(first)
    return content

"""Replies to prompts about edits: merge, rank, repair, suggestions and rewrites."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from skillwright.core import Edit, Patch, apply_patch
from skillwright.models.scripted.prompts import Listing, Reply, read_listing, read_reading
from skillwright.worlds.scripted.skilltext import BAD_RULES, Rule, read_conduct, read_habits

# Texts are compared by the rules that they state, so that two wordings of a rule count as equal.


_SAME_WORDS: Final = 0.75

_HEADING_ON_ONE_LINE = re.compile(r"^#{1,6} .*? - ")


class Say(NamedTuple):
    """A rule in a text, and whether the text asks for it or forbids it."""

    rule: Rule
    wanted: bool

    @property
    def is_harmful(self) -> bool:
        """Whether it forbids a good rule or asks for a bad one."""
        return self.wanted == (self.rule in BAD_RULES)


def says(text: str) -> frozenset[Say]:
    """Return the final statement of a text about each rule in it.

    A heading on the same line as its text is ignored.
    """
    stances = read_conduct(_HEADING_ON_ONE_LINE.sub("- ", text)).stances
    return frozenset(Say(rule, stance.wanted) for rule, stance in stances.items())


def are_alike(one: str, other: str) -> bool:
    """Tell whether two texts state the same rules, or without recognized rules have the same words.

    Texts about storage are compared by their words.
    """
    if says(one) or says(other):
        return says(one) == says(other) and bool(read_habits(one)) == bool(read_habits(other))
    words, others = _words(one), _words(other)
    if read_habits(one) or read_habits(other):
        return words == others
    shared = len(words & others)
    return shared >= _SAME_WORDS * max(len(words | others), 1)


def text_of(edit: Mapping[str, Any], field: str) -> str:
    """Return a field of an edit from a model's JSON, or "" if it is no text."""
    value = edit.get(field, "")
    return value if isinstance(value, str) else ""


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def edit(op: str, target: str, content: str) -> Reply:
    """Return an edit in the prompt's format, without evidence."""
    return {"op": op, "target": target, "content": content}


@dataclass(slots=True)
class _Group:
    """Equivalent edits."""

    members: list[Mapping[str, Any]] = field(default_factory=list)  # in the order given
    comes_from_failures: bool = False  # whether one of them is from a failure analyst

    @property
    def support(self) -> int:
        """Number of trajectories that support them."""
        return sum(map(support_of, self.members))

    @property
    def best(self) -> Mapping[str, Any]:
        """The member with most support."""
        return max(self.members, key=support_of)


def merge(user: str) -> Reply:
    """Answer a merge prompt: drop duplicates, resolve contradictions, keep the rest."""
    return merge_patches(read_listing(user, "Patches").items)


def merge_patches(patches: Sequence[Mapping[str, Any]]) -> Reply:
    """Merge patches of edits, and return the reply."""
    groups = _grouped(patches)
    # Edits from failures first, then by support.
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
    """Return an edit's support in the prompt; 0 if it is no number."""
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
    """Drop edits that contradict one with more support, or an earlier one with equal support."""
    stances: dict[Rule, bool] = {}
    dropped: list[_Group] = []
    for group in sorted(groups, key=lambda group: -group.support):
        said = {say.rule: say.wanted for say in says(text_of(group.best, "content"))}
        if any(stances.get(rule, wanted) != wanted for rule, wanted in said.items()):
            dropped.append(group)
        else:
            stances.update(said)
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
    """Drop anchors that an earlier edit removes, and repeated headings."""
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


def rank(user: str) -> Reply:
    """Answer a rank prompt: by support, then edits with new rules first."""
    listing = read_listing(user, "Edits")
    return ranked(listing, listing.items)


def ranked(listing: Listing, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rank edits under a listing's budget, and return the reply."""
    known = says(listing.skill)
    edits = [edit for edit in items if type(edit.get("index")) is int]
    edits.sort(key=lambda edit: (-support_of(edit), not _is_new(edit, known)))
    return {
        "reasoning": "The more trajectories speak for an edit the better, and at equal support "
        "what the skill does not say yet.",
        "selected_indices": [edit["index"] for edit in edits[: listing.budget]],
    }


def decide(user: str) -> Reply:
    """Answer a budget prompt with the number of edits with support and new rules."""
    listing = read_listing(user, "Edits")
    known = says(listing.skill)
    useful = [edit for edit in listing.items if support_of(edit) and _is_new(edit, known)]
    return {
        "reasoning": f"{len(useful)} of {len(listing.items)} edits say something that the skill "
        "does not, and trajectories speak for them.",
        "edit_budget": len(useful),
    }


def _is_new(edit: Mapping[str, Any], known: frozenset[Say]) -> bool:
    said = says(text_of(edit, "content") or text_of(edit, "instruction"))
    return bool(said - known)


def repair(user: str) -> Reply:
    """Answer a repair prompt: use the nearest passage that is unique in the skill.

    An insertion without such a passage goes to the end; any other edit is dropped.
    """
    listing = read_listing(user, "Edits")
    anchors = []
    for edit in listing.items:
        near = edit.get("nearest")
        passages = near if isinstance(near, list) else []
        target = next((p for p in passages if _stands_once(p, listing.skill)), "")
        op = text_of(edit, "op")
        if target:
            anchors.append({"id": edit.get("id"), "op": op, "target": target})
        elif op == "insert_after":
            anchors.append({"id": edit.get("id"), "op": "append", "target": ""})
    return {
        "reasoning": f"{len(anchors)} of {len(listing.items)} edits have a place in the document.",
        "anchors": anchors,
    }


def _stands_once(passage: object, skill: str) -> bool:
    return isinstance(passage, str) and bool(passage.strip()) and skill.count(passage) == 1


# Suggestions for the model that rewrites the skill, instead of edits. Each quotes the text that it
# replaces, so that it can be converted back into an edit.


_TYPES: Final = {"append": "add_rule", "insert_after": "add_rule", "delete": "remove_rule"}
_REPLACE = re.compile(r"Instead of \u201c(.*?)\u201d write: (.*)", re.DOTALL)
_INSERT = re.compile(r"Below \u201c(.*?)\u201d write: (.*)", re.DOTALL)
_DELETE = re.compile(r"Take out \u201c(.*?)\u201d", re.DOTALL)
_ADD: Final = "Write: "

Item = Mapping[str, Any]


def merge_suggestions(user: str) -> Reply:
    """Answer a merge prompt by converting suggestions to edits and back."""
    listing = read_listing(user, "Patches")
    reply = merge_patches([_as_patch(patch) for patch in listing.items])
    merged = [{**_suggestion(one), "sources": one["sources"]} for one in reply.pop("edits")]
    return {**reply, "revise_suggestions": merged}


def rank_suggestions(user: str) -> Reply:
    """Answer a rank prompt by converting suggestions to edits."""
    listing = read_listing(user, "Suggestions")
    return ranked(listing, [_as_edit(one) for one in listing.items])


def rewrite(user: str) -> Reply:
    """Answer a rewrite prompt: apply the suggestions to the skill."""
    listing = read_listing(user, "Suggestions")
    meant = [_as_edit(one) for one in listing.items]
    edits = [Edit(one["op"], one["content"], one["target"]) for one in meant]
    return {
        "reasoning": f"{len(edits)} suggestions are worked in, in their order.",
        "new_skill": apply_patch(listing.skill, Patch(edits)).strip(),
        "change_summary": [text_of(one, "title") or "a change" for one in listing.items],
    }


def as_suggestions(reply: Reply) -> Reply:
    """Convert the edits of an analyst's reply to suggestions."""
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
    """Convert a suggestion to an edit; one in an unknown form adds a rule."""
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


def merge_skills(user: str) -> Reply:
    """Answer a merge prompt: take the skill with most support, and add the others' new lines."""
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
    """Apply the edits of an analyst's reply to the skill in its prompt."""
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
    """Tell whether the known lines neither state nor contradict a line's rules."""
    if line in known or not line.strip() or line.startswith("#"):
        return False
    rules = {say.rule for text in known for say in says(text)}
    if any(say.rule in rules for say in says(line)):
        return False
    return not any(are_alike(line, one) for one in known if one.strip())


def _summary(one: Mapping[str, Any]) -> list[str]:
    listed = one.get("change_summary")
    return [s for s in listed if isinstance(s, str)] if isinstance(listed, list) else []

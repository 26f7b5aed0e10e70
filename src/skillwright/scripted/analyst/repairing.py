"""Where edits belong whose anchor was not found."""

from skillwright.scripted.analyst.meaning import text_of
from skillwright.scripted.analyst.prompt import Reply, read_listing


def repair(user: str) -> Reply:
    """Answer a repair prompt: take the nearest passage that stands once in the skill.

    An insertion without such a passage goes to the end; any other edit is left out.
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

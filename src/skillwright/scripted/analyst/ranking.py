"""Which edits are made where not all can be, and how many."""

from collections.abc import Mapping, Sequence
from typing import Any

from skillwright.scripted.analyst.meaning import Say, says, text_of
from skillwright.scripted.analyst.merging import support_of
from skillwright.scripted.analyst.prompt import Listing, Reply, read_listing


def rank(user: str) -> Reply:
    """Answer a rank prompt: by support, then by what the skill does not say yet."""
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
    """Answer a budget prompt: as many edits as something speaks for and the skill does not say."""
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

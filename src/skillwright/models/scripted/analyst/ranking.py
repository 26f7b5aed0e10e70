"""Which edits are made where not all can be."""

from collections.abc import Mapping
from typing import Any

from skillwright.models.scripted.analyst.meaning import Say, says, text_of
from skillwright.models.scripted.analyst.merging import support_of
from skillwright.models.scripted.analyst.prompt import read_listing


def rank(user: str, seed: int) -> dict[str, Any] | None:
    """Answer a rank prompt: by support, then by what the skill does not say yet.

    Returns:
        The reply, or ``None`` where the prompt cannot be read.
    """
    del seed
    listing = read_listing(user, "Edits")
    if listing is None:
        return None
    known = says(listing.skill)
    edits = [edit for edit in listing.items if type(edit.get("index")) is int]
    edits.sort(key=lambda edit: (-support_of(edit), not _is_new(edit, known)))
    return {
        "reasoning": "The more trajectories speak for an edit the better, and at equal support "
        "what the skill does not say yet.",
        "selected_indices": [edit["index"] for edit in edits[: listing.budget]],
    }


def _is_new(edit: Mapping[str, Any], known: frozenset[Say]) -> bool:
    said = says(text_of(edit, "content"))
    return bool(said - known)

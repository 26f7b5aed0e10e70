"""Slips of the agent that no rule would change, because the skill has the rule."""

import json
from typing import Any

from skillwright.scripted.analyst.diagnosis import diagnose
from skillwright.scripted.analyst.episode import read_episode
from skillwright.scripted.analyst.lessons import LESSONS
from skillwright.scripted.analyst.meaning import are_alike
from skillwright.scripted.analyst.prompt import read_reading
from skillwright.scripted.skilltext import BAD_RULES, read_conduct

HEADING = "\n# Execution notes\n"
"""What stands in an analyst's prompt that asks for notes."""


def execution_notes(user: str) -> list[str]:
    """Remind of what failed games did not do although the skill says it."""
    reading = read_reading(user)
    if reading is None:
        return []
    conduct = read_conduct(reading.skill)
    failed = [one for one in reading.trajectories if one.outcome == "failure"]
    found = diagnose([episode for one in failed if (episode := read_episode(one))])
    lapses = [d.rule for d in found if d.rule not in BAD_RULES and conduct.follows(d.rule)]
    return [f"Remember: {LESSONS[rule].wordings[0]}" for rule in lapses]


def consolidate(user: str, seed: int) -> dict[str, Any] | None:
    """Answer a consolidation prompt: of notes that say the same, the first stays.

    Returns:
        The reply, or ``None`` where the prompt cannot be read.
    """
    del seed
    _, mark, body = user.rpartition("\n## Notes\n")
    try:
        notes = json.loads(body) if mark else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(notes, list):
        return None
    kept: list[str] = []
    for note in notes:
        if isinstance(note, str) and not any(are_alike(note, one) for one in kept):
            kept.append(note)
    return {"reasoning": f"{len(notes)} notes say {len(kept)} things.", "notes": kept}

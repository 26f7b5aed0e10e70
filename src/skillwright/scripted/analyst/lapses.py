"""Slips of the agent that no rule would change, because the skill has the rule."""

from skillwright.scripted.analyst.diagnosis import diagnose
from skillwright.scripted.analyst.episode import read_episodes
from skillwright.scripted.analyst.lessons import LESSONS
from skillwright.scripted.analyst.meaning import are_alike
from skillwright.scripted.analyst.prompt import Reply, json_list_under, read_reading
from skillwright.scripted.skilltext import BAD_RULES, read_conduct

HEADING = "\n# Execution notes\n"
"""What stands in an analyst's prompt that asks for notes."""


def execution_notes(user: str) -> list[str]:
    """Remind of what failed games did not do although the skill says it."""
    reading = read_reading(user)
    conduct = read_conduct(reading.skill)
    failed = [one for one in reading.trajectories if one.outcome == "failure"]
    found = diagnose(read_episodes(failed))
    lapses = [d.rule for d in found if d.rule not in BAD_RULES and conduct.follows(d.rule)]
    return [f"Remember: {LESSONS[rule].wordings[0]}" for rule in lapses]


def consolidate(user: str) -> Reply:
    """Answer a consolidation prompt: of notes that say the same, the first stays."""
    _, notes = json_list_under("Notes", user)
    kept: list[str] = []
    for note in notes:
        if isinstance(note, str) and not any(are_alike(note, one) for one in kept):
            kept.append(note)
    return {"reasoning": f"{len(notes)} notes say {len(kept)} things.", "notes": kept}

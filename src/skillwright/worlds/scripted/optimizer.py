"""The base class of scripted optimizers, which answers all prompts but those of analysts."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from skillwright.core import Message
from skillwright.core.jsonio import dumps
from skillwright.models.scripted.prompts import (
    Reply,
    Unreadable,
    json_list_under,
    read_reading,
    read_retrospect,
)
from skillwright.models.scripted.teacher import ScriptedModel, first_of, heading_of
from skillwright.worlds.scripted.edits import (
    are_alike,
    as_suggestions,
    as_whole_skill,
    decide,
    merge,
    merge_skills,
    merge_suggestions,
    rank,
    rank_suggestions,
    repair,
    rewrite,
)


def consolidate(user: str) -> Reply:
    """Answer a consolidation prompt: keep the first of equivalent notes."""
    _, notes = json_list_under("Notes", user)
    kept: list[str] = []
    for note in notes:
        if isinstance(note, str) and not any(are_alike(note, one) for one in kept):
            kept.append(note)
    return {"reasoning": f"{len(notes)} notes say {len(kept)} things.", "notes": kept}


NOTES_HEADING: Final = "\n# Execution notes\n"
"""Heading of a request for execution notes in an analyst's prompt."""


def nothing_seen(user: str, outcome: str) -> Reply:
    """Answer an analyst's prompt with episodes of another environment."""
    read = sum(one.outcome == outcome for one in read_reading(user).trajectories)
    summary = "failure_summary" if outcome == "failure" else "success_patterns"
    return {
        "reasoning": f"None of {read} trajectories is one that I can read; I propose nothing.",
        summary: [],
        "patch": {"edits": []},
    }


def keep_guidance(user: str) -> Reply:
    """Answer a slow-update prompt: keep the earlier guidance."""
    return {
        "reasoning": "What fails still: nothing that a rule would change.",
        "slow_update_content": read_retrospect(user).earlier.strip(),
    }


def no_notes(user: str) -> Reply:
    """Answer a meta-skill prompt without notes."""
    games = len(read_retrospect(user).trajectories)
    return {"reasoning": f"{games} games were played under both skills.", "meta_skill_content": ""}


_BY_PROMPT: Final[Mapping[str, Callable[[str], Reply]]] = {
    "# Analyst: failures": lambda user: nothing_seen(user, "failure"),
    "# Analyst: successes": lambda user: nothing_seen(user, "success"),
    "# Analyst: failures, suggestions": lambda user: as_suggestions(nothing_seen(user, "failure")),
    "# Analyst: successes, suggestions": lambda user: as_suggestions(nothing_seen(user, "success")),
    "# Analyst: failures, whole skill": lambda user: as_whole_skill(
        user, nothing_seen(user, "failure")
    ),
    "# Analyst: successes, whole skill": lambda user: as_whole_skill(
        user, nothing_seen(user, "success")
    ),
    "# Slow update": keep_guidance,
    "# Meta skill": no_notes,
    "# Merge: failures": merge,
    "# Merge: successes": merge,
    "# Merge: final": merge,
    "# Rank edits": rank,
    "# Merge: failures, suggestions": merge_suggestions,
    "# Merge: successes, suggestions": merge_suggestions,
    "# Merge: final, suggestions": merge_suggestions,
    "# Rank suggestions": rank_suggestions,
    "# Rewrite the skill": rewrite,
    "# Merge: failures, whole skills": merge_skills,
    "# Merge: successes, whole skills": merge_skills,
    "# Merge: final, whole skills": merge_skills,
    "# Edit budget": decide,
    "# Repair anchors": repair,
    "# Consolidate notes": consolidate,
}


class ScriptedOptimizer(ScriptedModel):
    """Answers the prompts of a text optimizer; subclasses add the analysis of episodes."""

    prose: ClassVar[str] = (
        "I am a scripted optimizer. I propose, merge and rank edits of a skill; I cannot tell what "
        "this message asks for."
    )
    """Reply to a prompt that asks for no JSON."""

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the JSON that the prompt asks for, or prose."""
        system, user = first_of(messages, "system"), first_of(messages, "user")
        try:
            answer = self.answer(heading_of(system), user, seed)
        except Unreadable:
            return self.prose
        if NOTES_HEADING in system:
            answer["appendix_notes"] = self.execution_notes(user)
        return dumps(answer, indent=1)

    def execution_notes(self, user: str) -> list[str]:
        """Return reminders of rules in the skill that failed episodes broke."""
        return []

    def answer(self, heading: str, user: str, seed: int) -> Reply:
        """Answer a prompt of the text optimizer.

        Raises:
            Unreadable: The prompt is unknown, or lacks a part.
        """
        if heading not in _BY_PROMPT:
            raise Unreadable(heading)
        return _BY_PROMPT[heading](user)

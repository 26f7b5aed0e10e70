"""A scripted optimizer model: it answers every prompt of the learner."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from skillwright.core import Message
from skillwright.core.jsonio import dumps
from skillwright.scripted.analyst.hindsight import remember, slow_update
from skillwright.scripted.analyst.lapses import HEADING, consolidate, execution_notes
from skillwright.scripted.analyst.merging import merge
from skillwright.scripted.analyst.prompt import Reply, Unreadable
from skillwright.scripted.analyst.ranking import decide, rank
from skillwright.scripted.analyst.reflection import analyse_failures, analyse_successes
from skillwright.scripted.analyst.repairing import repair
from skillwright.scripted.analyst.suggesting import (
    as_suggestions,
    merge_suggestions,
    rank_suggestions,
    rewrite,
)
from skillwright.scripted.analyst.whole import as_whole_skill, merge_skills
from skillwright.scripted.answering import ScriptedModel, first_of, heading_of

_BY_SEED: Final[Mapping[str, Callable[[str, int], Reply]]] = {
    "# Analyst: failures": analyse_failures,
    "# Analyst: successes": analyse_successes,
    "# Analyst: failures, suggestions": lambda user, seed: as_suggestions(
        analyse_failures(user, seed)
    ),
    "# Analyst: successes, suggestions": lambda user, seed: as_suggestions(
        analyse_successes(user, seed)
    ),
    "# Analyst: failures, whole skill": lambda user, seed: as_whole_skill(
        user, analyse_failures(user, seed)
    ),
    "# Analyst: successes, whole skill": lambda user, seed: as_whole_skill(
        user, analyse_successes(user, seed)
    ),
    "# Slow update": slow_update,
}
_BY_PROMPT: Final[Mapping[str, Callable[[str], Reply]]] = {
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
    "# Meta skill": remember,
}
_PROSE: Final = (
    "I am a scripted analyst. I read trajectories of household tasks and propose, merge and rank "
    "edits of a skill; I cannot tell what this message asks for."
)


class ScriptedAnalyst(ScriptedModel):
    """Reads household trajectories and proposes edits of a skill, as a language model would.

    It is no better than a language model: now and then it takes chance for a lesson, or quotes a
    line that is not there.
    """

    identity = "scripted:analyst"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the JSON that the prompt asks for, or prose where it asks for none."""
        system, user = first_of(messages, "system"), first_of(messages, "user")
        try:
            answer = _answer(heading_of(system), user, seed)
            if HEADING in system:
                answer["appendix_notes"] = execution_notes(user)
        except Unreadable:
            return _PROSE
        return dumps(answer, indent=1)


def _answer(heading: str, user: str, seed: int) -> Reply:
    if heading in _BY_SEED:
        return _BY_SEED[heading](user, seed)
    if heading in _BY_PROMPT:
        return _BY_PROMPT[heading](user)
    raise Unreadable(heading)

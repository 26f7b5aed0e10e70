"""A scripted optimiser model: it answers every prompt of the learner."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import dumps
from skillwright.scripted.analyst.hindsight import remember, slow_update
from skillwright.scripted.analyst.lapses import HEADING, consolidate, execution_notes
from skillwright.scripted.analyst.merging import merge
from skillwright.scripted.analyst.ranking import decide, rank
from skillwright.scripted.analyst.reflection import analyse_failures, analyse_successes
from skillwright.scripted.analyst.repairing import repair
from skillwright.scripted.analyst.suggesting import (
    merge_suggestions,
    rank_suggestions,
    rewrite,
    suggest_from_failures,
    suggest_from_successes,
)
from skillwright.scripted.analyst.whole import (
    merge_skills,
    write_from_failures,
    write_from_successes,
)
from skillwright.scripted.answering import answered

_ANSWERS: Final[Mapping[str, Callable[[str, int], dict[str, Any] | None]]] = {
    "# Analyst: failures": analyse_failures,
    "# Analyst: successes": analyse_successes,
    "# Merge: failures": merge,
    "# Merge: successes": merge,
    "# Merge: final": merge,
    "# Rank edits": rank,
    "# Analyst: failures, suggestions": suggest_from_failures,
    "# Analyst: successes, suggestions": suggest_from_successes,
    "# Merge: failures, suggestions": merge_suggestions,
    "# Merge: successes, suggestions": merge_suggestions,
    "# Merge: final, suggestions": merge_suggestions,
    "# Rank suggestions": rank_suggestions,
    "# Rewrite the skill": rewrite,
    "# Analyst: failures, whole skill": write_from_failures,
    "# Analyst: successes, whole skill": write_from_successes,
    "# Merge: failures, whole skills": merge_skills,
    "# Merge: successes, whole skills": merge_skills,
    "# Merge: final, whole skills": merge_skills,
    "# Edit budget": decide,
    "# Repair anchors": repair,
    "# Consolidate notes": consolidate,
    "# Slow update": slow_update,
    "# Meta skill": remember,
}
_PROSE: Final = (
    "I am a scripted analyst. I read trajectories of household tasks and propose, merge and rank "
    "edits of a skill; I cannot tell what this message asks for."
)


class ScriptedAnalyst:
    """Reads household trajectories and proposes edits of a skill, as a language model would.

    It stands in for an optimiser model where none is at hand. It looks at the text of its messages
    and at ``sampling.seed``, and at nothing else; equal questions get equal answers. It is no
    better than a language model: now and then it takes luck for a lesson, or quotes a line that is
    not there.
    """

    identity = "scripted:analyst"
    is_scripted = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with the JSON that the prompt asks for, or with prose where it asks for none."""
        del tools, purpose
        text = _answer(_first(messages, "system"), _first(messages, "user"), sampling.seed or 0)
        return answered(text, messages, self.identity)


def _first(messages: Sequence[Message], role: str) -> str:
    """Return the first message of a role: what follows it is a complaint about the answer."""
    return next((m["content"] for m in messages if m["role"] == role), "")


def _answer(system: str, user: str, seed: int) -> str:
    answer = _ANSWERS.get(system.strip().partition("\n")[0].strip())
    # Half a surrogate pair is no text, and nothing could be derived from it.
    readable = user.encode(errors="replace").decode()
    reply = answer(readable, seed) if answer else None
    if reply is not None and HEADING in system:
        reply["appendix_notes"] = execution_notes(readable)
    return _PROSE if reply is None else dumps(reply, indent=1)

"""A weak but obedient household agent, as a chat model."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.models.scripted.answering import answered
from skillwright.models.scripted.household.belief import Belief, read_conversation
from skillwright.models.scripted.household.drives import DRIVES, LOOK
from skillwright.models.scripted.household.luck import Luck
from skillwright.models.scripted.household.turn import Turn
from skillwright.models.scripted.skilltext import Conduct, Habit, read_conduct, read_habits

_SKILL_MARK = "## Skill"


class ScriptedHousehold:
    """Plays household games by the rules that it recognises in its skill, and wanders without.

    It stands in for a language model where none is at hand. It looks at the text of its messages
    and at ``sampling.seed``, and at nothing else; equal conversations get equal answers. Good and
    bad advice is followed alike; where two sentences contradict each other, the later one holds.
    """

    identity = "scripted:household"
    is_scripted = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with one command, as ``<action>...</action>``."""
        del tools, purpose
        skill = skill_in(messages)
        command = decide(
            read_conversation(messages), read_conduct(skill), read_habits(skill), sampling.seed or 0
        )
        text = f"<action>{command}</action>"
        return answered(text, messages, self.identity)


def skill_in(messages: Sequence[Message]) -> str:
    """Return the text under the skill heading of the first system message, or ""."""
    for message in messages:
        if message["role"] == "system":
            return message["content"].partition(f"{_SKILL_MARK}\n")[2]
    return ""


def decide(belief: Belief, conduct: Conduct, habits: Sequence[Habit], seed: int) -> str:
    """Return the next command; "look" where the conversation tells of no household task."""
    if belief.errand is None:
        return LOOK
    turn = Turn(belief, belief.errand, conduct, habits, Luck(seed))
    refused = belief.last_command if belief.latest.rejected else ""
    proposed = (drive(turn) for drive in DRIVES)
    return next((command for command in proposed if command and command != refused), LOOK)

"""A weak but obedient household agent, as a chat model."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.scripted.answering import answered
from skillwright.scripted.household.belief import Belief, read_conversation
from skillwright.scripted.household.drives import DRIVES, LOOK
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.household.moves import open_moves
from skillwright.scripted.household.turn import Turn
from skillwright.scripted.skilltext import Conduct, Habit, read_conduct, read_habits

_SKILL_MARK = "## Skill"


class ScriptedHousehold:
    """Plays household games by the rules that it recognises in its skill, and wanders without.

    It stands in for a language model where none is at hand. It looks at the text of its messages
    and at ``sampling.seed``, and at nothing else; equal conversations get equal answers. Good and
    bad advice is followed alike; where two sentences contradict each other, the later one holds.

    Without noise its random choices follow the seed alone: two skills that are tested at equal
    seeds share them. With noise they follow the seed and the whole prompt, as those of a language
    model do: a run repeats exactly, and another skill meets random numbers of its own.

    Args:
        noise: The share of turns with a random admissible action, in [0, 1).
    """

    is_scripted = True

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise
        self.identity = f"scripted:household noise={noise}" if noise else "scripted:household"

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
        seed = sampling.seed or 0
        if self._noise:
            seed = derive_seed("prompt", seed, digest(list(messages)))
        belief, conduct, habits = (
            read_conversation(messages),
            read_conduct(skill),
            read_habits(skill),
        )
        command = decide(belief, conduct, habits, seed, self._noise)
        text = f"<action>{command}</action>"
        return answered(text, messages, self.identity)


def skill_in(messages: Sequence[Message]) -> str:
    """Return the text under the skill heading of the first system message, or ""."""
    for message in messages:
        if message["role"] == "system":
            return message["content"].partition(f"{_SKILL_MARK}\n")[2]
    return ""


def decide(
    belief: Belief, conduct: Conduct, habits: Sequence[Habit], seed: int, noise: float = 0.0
) -> str:
    """Return the next command; "look" where the conversation tells of no household task.

    Args:
        belief: What the conversation tells.
        conduct: The rules that the skill gives.
        habits: The storage habits that the skill tells.
        seed: Decides all random choices of this turn.
        noise: The probability of a random move instead of a chosen one, in [0, 1).
    """
    if belief.errand is None:
        return LOOK
    turn = Turn(belief, belief.errand, conduct, habits, Luck(seed))
    if turn.luck.chance("noise") < noise:
        return turn.luck.pick("noise", open_moves(turn))
    refused = belief.last_command if belief.latest.rejected else ""
    proposed = (drive(turn) for drive in DRIVES)
    return next((command for command in proposed if command and command != refused), LOOK)

"""A weak but obedient household agent, as a chat model."""

from collections.abc import Sequence

from skillwright.core import Message
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.scripted.answering import ScriptedModel, skill_in
from skillwright.scripted.household.belief import Belief, read_conversation
from skillwright.scripted.household.drives import DRIVES, LOOK
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.household.moves import open_moves
from skillwright.scripted.household.turn import Turn
from skillwright.scripted.skilltext import Conduct, Habit, read_conduct, read_habits


class ScriptedHousehold(ScriptedModel):
    """Plays household games by the rules that it recognizes in its skill, and wanders without.

    Good and bad advice is followed alike; where two sentences contradict each other, the later one
    holds.

    Without noise its random choices follow the seed alone: two skills that are tested at equal
    seeds share them. With noise they follow the seed and the whole prompt, as those of a language
    model do: a run repeats exactly, and another skill meets random numbers of its own.

    Args:
        noise: The share of turns with a random admissible action, in [0, 1).
    """

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise
        self.identity = f"scripted:household noise={noise}" if noise else "scripted:household"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command, as ``<action>...</action>``."""
        skill = skill_in(messages)
        if self._noise:
            seed = derive_seed("prompt", seed, digest(list(messages)))
        belief = read_conversation(messages)
        command = decide(belief, read_conduct(skill), read_habits(skill), seed, self._noise)
        return f"<action>{command}</action>"


def decide(
    belief: Belief, conduct: Conduct, habits: Sequence[Habit], seed: int, noise: float = 0.0
) -> str:
    """Return the next command; "look" where the conversation tells of no household task.

    The probability ``noise`` is that of a random move instead of a chosen one, in [0, 1).
    """
    if belief.errand is None:
        return LOOK
    turn = Turn(belief, belief.errand, conduct, habits, Luck(seed))
    if turn.luck.chance("noise") < noise:
        return turn.luck.pick("noise", open_moves(turn))
    refused = belief.last_command if belief.latest.rejected else ""
    proposed = (drive(turn) for drive in DRIVES)
    return next((command for command in proposed if command and command != refused), LOOK)

"""A household expert as a chat model: it has every good rule and learns households by its skill."""

from collections.abc import Sequence

from skillwright.core import Message
from skillwright.scripted.answering import ScriptedModel, skill_in
from skillwright.scripted.household.agent import decide
from skillwright.scripted.household.belief import read_conversation
from skillwright.scripted.skilltext import EXPERT_CONDUCT, read_habits


class ScriptedSearcher(ScriptedModel):
    """Plays household games by every good rule, and searches by what its skill says of the home.

    It never looks at the seed. It answers with the bare command, so that a policy that chooses from
    a list can be taught by it.
    """

    identity = "scripted:searcher"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command."""
        del seed
        habits = read_habits(skill_in(messages))
        return decide(read_conversation(messages), EXPERT_CONDUCT, habits, seed=0)

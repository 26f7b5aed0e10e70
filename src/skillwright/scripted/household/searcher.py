"""A household expert as a chat model: every good rule is its own, and homes it has to be told."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.scripted.answering import answered
from skillwright.scripted.household.agent import decide, skill_in
from skillwright.scripted.household.belief import read_conversation
from skillwright.scripted.skilltext import EXPERT_CONDUCT, read_habits

_NO_LUCK = 0


class ScriptedSearcher:
    """Plays household games by every good rule, and searches by what its skill says of the home.

    It looks at the text of its messages and at nothing else, and never at luck: equal
    conversations get equal answers. It answers with the bare command, so that a policy that
    chooses from a list can be taught by it.
    """

    identity = "scripted:searcher"
    is_scripted = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with one command."""
        del tools, sampling, purpose
        habits = read_habits(skill_in(messages))
        command = decide(read_conversation(messages), EXPERT_CONDUCT, habits, _NO_LUCK)
        return answered(command, messages, self.identity)

"""A weak but obedient retail agent, as a chat model."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.models.scripted.answering import answered
from skillwright.models.scripted.household.agent import skill_in
from skillwright.models.scripted.retail.desk import serve
from skillwright.models.scripted.retail.moves import Say, heard, next_move
from skillwright.models.scripted.retail.rules import read_rules


class ScriptedRetail:
    """Serves the customers of the built-in store by the rules that it recognises in its skill.

    It stands in for a language model where none is at hand, and understands only the customer of
    the strategy ``rule_based`` with the built-in store's tasks. It looks at the text of its
    messages and at nothing else: what it does in a turn follows from what it has read so far.
    Without a skill it forgets most of what good service is.
    """

    identity = "scripted:retail"
    is_scripted = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with one tool call, or with a message to the customer."""
        del tools, sampling, purpose
        opening, *replies = heard(messages) or [""]
        service = serve(opening, read_rules(skill_in(messages)))
        try:
            text = next_move(service, replies).written()
        except (KeyError, TypeError, ValueError, AttributeError):
            # Other data than the built-in store's: it has no idea, and says so.
            text = Say("I am sorry, I cannot help you with that. Goodbye.").written()
        return answered(text, messages, self.identity)

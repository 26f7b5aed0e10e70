"""A hasty but obedient shopper, as a chat model, and one who knows how to shop."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.scripted.answering import answered
from skillwright.scripted.household.agent import skill_in
from skillwright.scripted.shopper.choices import next_command
from skillwright.scripted.shopper.recognise import read_rules
from skillwright.scripted.shopper.rules import GOOD_RULES, ShopRule
from skillwright.scripted.shopper.visit import read_visit


class ScriptedShopper:
    """Shops by the rules that it recognises in its skill.

    It stands in for a language model where none is at hand. It looks at the text of its messages
    and at nothing else; equal conversations get equal answers. Without a skill it pastes the
    customer's sentence into the search and buys the first hit as it is. Good and bad advice is
    followed alike; where two sentences contradict each other, the later one holds.
    """

    identity = "scripted:shopper"
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
        del tools, sampling, purpose
        return _answer(
            messages, read_rules(skill_in(messages)), "<action>{}</action>", self.identity
        )


class ScriptedBuyer:
    """Shops by every good rule, whatever its skill says.

    It answers with the bare command, so that a policy that chooses from a list can be taught by it.
    """

    identity = "scripted:buyer"
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
        return _answer(messages, GOOD_RULES, "{}", self.identity)


def _answer(
    messages: Sequence[Message], rules: frozenset[ShopRule], form: str, identity: str
) -> Completion:
    text = form.format(next_command(read_visit(messages), rules))
    return answered(text, messages, identity)

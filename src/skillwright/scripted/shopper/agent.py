"""A hasty but obedient shopper, as a chat model, and one who knows how to shop."""

from collections.abc import Sequence

from skillwright.core import Message
from skillwright.scripted.answering import ScriptedModel, skill_in
from skillwright.scripted.shopper.choices import next_command
from skillwright.scripted.shopper.recognise import read_rules
from skillwright.scripted.shopper.rules import GOOD_RULES
from skillwright.scripted.shopper.visit import read_visit


class ScriptedShopper(ScriptedModel):
    """Shops by the rules that it recognizes in its skill; it never looks at the seed.

    Without a skill it pastes the customer's sentence into the search and buys the first hit as it
    is. Good and bad advice is followed alike; where two sentences contradict each other, the later
    one holds.
    """

    identity = "scripted:shopper"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command, as ``<action>...</action>``."""
        del seed
        command = next_command(read_visit(messages), read_rules(skill_in(messages)))
        return f"<action>{command}</action>"


class ScriptedBuyer(ScriptedModel):
    """Shops by every good rule, whatever its skill says.

    It answers with the bare command, so that a policy that chooses from a list can be taught by it.
    """

    identity = "scripted:buyer"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command."""
        del seed
        return next_command(read_visit(messages), GOOD_RULES)

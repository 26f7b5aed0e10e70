"""A weak but obedient retail agent, as a chat model."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling, ToolCall
from skillwright.scripted.answering import answered
from skillwright.scripted.household.agent import skill_in
from skillwright.scripted.retail.desk import serve
from skillwright.scripted.retail.moves import Say, heard, next_move
from skillwright.scripted.retail.rules import read_rules


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
        """Answer with one tool call, natively where tools are offered, or with a message."""
        del sampling, purpose
        opening, *replies = heard(messages) or [""]
        service = serve(opening, read_rules(skill_in(messages)))
        try:
            move = next_move(service, replies)
            written = move.written()
        except (KeyError, TypeError, ValueError, AttributeError):
            # Other data than the built-in store's: it has no idea, and says so.
            move = Say("I am sorry, I cannot help you with that. Goodbye.")
            written = move.written()
        answer = answered(written, messages, self.identity)
        if not tools or isinstance(move, Say):
            return answer
        call = ToolCall(f"call_{len(replies)}", move.name, json.dumps(move.arguments))
        return replace(answer, text="", finish_reason="tool_calls", tool_calls=(call,))

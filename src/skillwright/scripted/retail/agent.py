"""A weak but obedient retail agent, as a chat model."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from skillwright.core import Completion, Message, Purpose, Sampling, ToolCall
from skillwright.scripted.answering import ScriptedModel, skill_in
from skillwright.scripted.retail.desk import serve
from skillwright.scripted.retail.moves import Call, Say, heard, next_move
from skillwright.scripted.retail.rules import read_rules


class ScriptedRetail(ScriptedModel):
    """Serves the customers of the built-in store by the rules that it recognizes in its skill.

    It understands only the customer of the strategy ``rule_based`` with the built-in store's tasks.
    It never looks at the seed: what it does in a turn follows from what it has read so far. Without
    a skill it forgets most of what good service is.
    """

    identity = "scripted:retail"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with one tool call, natively where tools are offered, or with a message."""
        answer = await super().complete(messages, sampling=sampling, purpose=purpose)
        move = _move(messages) if tools else Say(answer.text)
        if isinstance(move, Say):
            return answer
        turn = len(heard(messages)) - 1
        call = ToolCall(f"call_{turn}", move.name, json.dumps(move.arguments))
        return replace(answer, text="", finish_reason="tool_calls", tool_calls=(call,))

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return a tool call in ``<tool_call>`` tags, or a message."""
        del seed
        return _move(messages).written()


def _move(messages: Sequence[Message]) -> Say | Call:
    opening, *replies = heard(messages) or [""]
    try:
        move = next_move(serve(opening, read_rules(skill_in(messages))), replies)
        move.written()
    except (KeyError, TypeError, ValueError, AttributeError):
        # Other data than the built-in store's: it has no idea, and says so.
        return Say("I am sorry, I cannot help you with that. Goodbye.")
    return move

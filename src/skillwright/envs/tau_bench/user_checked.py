"""Customers whose drafts are judged before they are said: ``verify`` and ``reflection``.

The judge is the same model. It is shown the conversation with its speakers rightly named, and
only what was said is remembered: no draft that was refused, and no advice.
"""

import re
from collections.abc import Sequence
from typing import Final

from skillwright.core import Message
from skillwright.envs.tau_bench.user_model import ModelUser
from skillwright.envs.tau_bench.user_prompts import advice, judge_prompt, reflect_prompt

_DRAFTS: Final = 3
_RESPONSE: Final = re.compile(r"^[ \t*#]*response[ \t*]*:[ \t*]*", re.I | re.M)


class _JudgedUser(ModelUser):
    """A customer that a model plays, under the eyes of a judge."""

    async def _is_good(self, conversation: Sequence[Message], draft: str) -> bool:
        verdict = await self._ask(judge_prompt(conversation, draft))
        good = "true" in verdict.lower()
        if not good:
            self.backstage.setdefault("refused", []).append(draft)
        return good


class VerifyingUser(_JudgedUser):
    """A customer that drafts a message up to three times; the third is said whatever it is."""

    async def _reply(self, conversation: Sequence[Message]) -> str:
        draft = ""
        for _ in range(_DRAFTS):
            draft = await self._ask(conversation)
            if await self._is_good(conversation, draft):
                break
        return draft


class ReflectingUser(_JudgedUser):
    """A customer that thinks again, once, about a draft that was refused.

    What it writes after the advice is said if the judge is content with it, else the first draft.
    """

    async def _reply(self, conversation: Sequence[Message]) -> str:
        first = await self._ask(conversation)
        if await self._is_good(conversation, first):
            return first
        reflection = await self._ask(reflect_prompt(conversation, first), _proposal)
        self.backstage["reflection"] = reflection
        second = await self._ask([*conversation, advice(first, _proposal(reflection))])
        return second if await self._is_good(conversation, second) else first


def _proposal(reflection: str) -> str:
    """Return what stands behind the last label, or all of it where there is none."""
    return _RESPONSE.split(reflection)[-1].strip()

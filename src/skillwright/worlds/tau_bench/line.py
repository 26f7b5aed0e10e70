"""The conversation with the simulated user, with its counts, times and checks."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from skillwright.core import (
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReplyInvalid,
    RequestRefused,
    Usage,
)
from skillwright.core.calls import WrittenCall, read_calls
from skillwright.models import ContextOverflow
from skillwright.worlds.tau_bench.tau_core.store import TauEnv
from skillwright.worlds.tau_bench.users import STOP

# Signs of faulty users in one reply. They are rough, are counted, and change no score.


_RECITED_WORDS: Final = 12
"""Words in a row that are not a coincidence: paraphrases share fewer with a text."""

_WORD: Final = re.compile(r"[#\w]+")
_AGENT_TALK: Final = re.compile(
    r"how (?:can|may) i (?:help|assist) you"
    r"|(?:anything|something) else i can (?:help|assist|do)"
    r"|(?:help|assist) you with (?:that|your)"
    r"|i(?:'ve| have) (?:processed|cancelled|canceled|updated|modified) your"
    r"|your (?:order|return|refund|exchange|reservation|booking|flight) has been"
    r"|thank you for (?:contacting|calling|reaching out)"
    r"|<tool_call>|^\s*(?:agent|assistant)\s*:",
    re.I,
)


def swaps_roles(reply: str) -> bool:
    """Tell whether a user's reply sounds like the agent's."""
    return bool(_AGENT_TALK.search(reply))


def leaks(reply: str, instruction: str) -> bool:
    """Tell whether a user's reply recites its instruction, or mentions having one."""
    if re.search(r"\b(?:my|the) instructions?\b|^\s*instruction\s*:", reply, re.I):
        return True
    given = _WORD.findall(instruction.lower())
    size = min(_RECITED_WORDS, len(given))
    said = _WORD.findall(reply.lower())
    if not size or len(said) < size:
        return False
    runs = {tuple(given[at : at + size]) for at in range(len(given) - size + 1)}
    return any(tuple(said[at : at + size]) in runs for at in range(len(said) - size + 1))


_FACT: Final = re.compile(r"[\w.+-]+@[\w-]+\.\w+|#?\w*\d{4,}\w*")


def invents(reply: str, known: str) -> bool:
    """Tell whether a user says an address or a long number that it cannot know."""
    there = known.lower()
    return any(fact.lower() not in there for fact in _FACT.findall(reply))


_MORE: Final = re.compile(
    r"\b(?:any|some)thing (?:else|more)|\b(?:other|more|further) (?:question|help|assist|issue)",
    re.I,
)


def asks(message: str) -> bool:
    """Tell whether the agent waits for an answer, and not only asks if there is more to do."""
    last = re.split(r"(?<=[.!?])\s+", message.rstrip(" )*\"'\n"))[-1]
    return last.endswith("?") and not _MORE.search(last)


logger = logging.getLogger(__name__)

_MOST_CALLS: Final = 30  # of a user's tools in one turn


class UserLine:
    """One conversation with a user: a `UserSimulator`, or anything with ``reset`` and ``step``.

    Its methods return the user's message. They raise the user's errors, and `ReplyInvalid` for an
    empty message or a hang-up before the first.

    Attributes:
        role_swaps: Replies in which the user spoke as the agent does.
        leaks: Replies in which it recited its instruction.
        inventions: Replies with a number or an address that nothing before them has.
        called: The user's tool calls of its latest turn, with their results.
        wall_s: Seconds spent waiting for the user.
    """

    def __init__(self, tau_env: TauEnv) -> None:
        self.role_swaps = self.leaks = self.inventions = 0
        self.called: list[dict[str, str]] = []
        self.wall_s = 0.0
        self._tau_env = tau_env
        self._instruction = ""
        self._heard: list[str] = []  # the user's words, and what its tools showed
        self._spoken = 0
        self._usage_before, self._calls_before = Usage(), 0

    @property
    def usage(self) -> Usage:
        """The usage of the user's model, if the user reports it."""
        own = getattr(self._tau_env.user, "usage", None) if self._spoken else None
        return replace(own, seconds=self.wall_s) if isinstance(own, Usage) else Usage()

    @property
    def calls(self) -> int:
        """Requests to the user's model, failed ones included, or messages without a model."""
        usage = self.usage
        return usage.calls + usage.failed_calls + usage.cache_hits or self._spoken

    def turn(self) -> dict[str, Any]:
        """Describe the user's turn since the last call, as JSON, without times."""
        now, before = self.usage, self._usage_before
        self._usage_before = now
        spent = {
            "calls": self.calls - self._calls_before,
            "input_tokens": now.input_tokens - before.input_tokens,
            "output_tokens": now.output_tokens - before.output_tokens,
            "failed_calls": now.failed_calls - before.failed_calls,
            "cost_usd": _cost(before.cost_usd, now.cost_usd),
        }
        self._calls_before = self.calls
        own = getattr(self._tau_env.user, "backstage", None)
        calls = {"tool_calls": self.called} if self.called else {}
        return {"usage": spent, **calls, **(own if isinstance(own, dict) else {})}

    def open(self, instruction: str) -> str:
        """Begin the conversation; open again once if the user hangs up at once."""
        self._instruction = instruction
        opening = self._ask(self._tau_env.user.reset, instruction)
        if STOP in opening:
            opening = _opened(self._ask(self._tau_env.user.reset, instruction))
        return self._opening(opening)

    async def aopen(self, instruction: str) -> str:
        """Begin as `open` does, awaiting the user."""
        self._instruction = instruction
        opening = await self._await("reset", instruction)
        if STOP in opening:
            opening = _opened(await self._await("reset", instruction))
        return self._opening(opening)

    def say(self, text: str) -> str:
        """Send a message to the user, run the tools that it calls, and return the answer."""
        self.called, heard = [], self._ask(self._tau_env.user.step, text)
        while (result := self._run(heard)) is not None:
            heard = self._ask(self._tau_env.user.step, result)
        return self._noted(heard)

    async def asay(self, text: str) -> str:
        """Send as `say` does, awaiting the user."""
        self.called, heard = [], await self._await("step", text)
        while (result := self._run(heard)) is not None:
            heard = await self._await("step", result)
        return self._noted(heard)

    def _calls(self, reply: str) -> Sequence[WrittenCall]:
        domain = self._tau_env.store.domain
        return read_calls(reply, domain.user_schemas).calls if domain.user_tools else ()

    def _run(self, reply: str) -> str | None:
        """Run the tools that a user calls; return the results, or ``None`` for a message."""
        if not (calls := self._calls(reply)):
            return None
        if len(self.called) == _MOST_CALLS:
            raise ReplyInvalid(f"the simulated user called tools {_MOST_CALLS} times in one turn")
        results = [
            f"Error: the call cannot be read: {call.problem}"
            if call.problem
            else self._tau_env.call_by_user(call.name, call.arguments).observation
            for call in calls
        ]
        shown = "\n\n".join(results)
        self.called.append({"said": reply, "result": shown})
        self._heard.append(shown)
        return f"<tool_response>\n{shown}\n</tool_response>"

    def _opening(self, opening: str) -> str:
        if self._calls(opening):
            raise ReplyInvalid("the simulated user called a tool before it said anything")
        return self._noted(opening)

    def _ask(self, speak: Callable[[str], Any], heard: str) -> str:
        with self._counted():
            return _said(speak(heard))

    async def _await(self, method: str, heard: str) -> str:
        user = self._tau_env.user
        speak = getattr(user, f"a{method}", None)
        with self._counted():
            if speak is None:
                # An external simulator may block, for example on the network.
                return _said(await asyncio.to_thread(getattr(user, method), heard))
            return _said(await speak(heard))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        started = time.perf_counter()
        self._spoken += 1
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - started

    def _noted(self, reply: str) -> str:
        known = [self._instruction, *self._tau_env.said, *self._heard]
        self.inventions += invents(reply, " ".join(known))
        self._heard.append(reply)
        task = f"{self._tau_env.split} {self._tau_env.index}"
        if swaps_roles(reply):
            self.role_swaps += 1
            logger.info("the user of task %s speaks as the agent does: %.200r", task, reply)
        if leaks(reply, self._instruction):
            self.leaks += 1
            logger.info("the user of task %s recites its instruction: %.200r", task, reply)
        return reply


def _cost(before: float | None, now: float | None) -> float | None:
    """Return the cost of a turn; an unknown price is ``None``, not 0."""
    return None if before is None or now is None else now - before


def refuses_everything(fault: Exception) -> bool:
    """Tell whether the user's server refuses every request: a wrong key, or a wrong model."""
    return isinstance(fault, ModelRefused) and not isinstance(fault, RequestRefused)


def reason(fault: Exception) -> str:
    """Return one word for why the user did not answer."""
    match fault:
        case ContextOverflow():
            return "context"
        case ModelRefused():
            return "refused"
        case ModelTimeout():
            return "timeout"
        case ReplyInvalid():
            return "reply"
        case ModelError():
            return "unreachable"
        case _:
            return "broken"


def message_of(fault: Exception) -> str:
    """Return the message of an error, never blank."""
    return str(fault) or type(fault).__name__


def _said(reply: Any) -> str:
    if isinstance(reply, str) and reply.strip():
        return reply
    raise ReplyInvalid("the simulated user said nothing")


def _opened(opening: str) -> str:
    if STOP in opening:
        raise ReplyInvalid("the simulated user hung up before it said anything, twice")
    return opening

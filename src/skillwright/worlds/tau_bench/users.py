"""Simulated users: their interface, the strategies by name, and users without a model.

An unreachable or faulty server raises a `ModelError`, never a reply, because a reply could end the
episode with a reward.
"""

import asyncio
import atexit
import importlib
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from skillwright.core import DataError, ModelRefused, Usage, did_you_mean
from skillwright.core.fence import without_controls
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig
from skillwright.worlds.tau_bench.tau_core import DOMAINS
from skillwright.worlds.tau_bench.tau_core.domain import STOP as STOP

T = TypeVar("T")

GREETING: Final = "Hi! How can I help you today?"
"""The agent's first message to a user, before its opening."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message to the user and its answer; ``thought`` is its reasoning, or ""."""

    heard: str
    said: str
    thought: str = ""


class UserSimulator(ABC):
    """Plays the customer of one episode; the blocking methods wait for the awaitable ones.

    Every method returns the customer's message, never blank; with `STOP` in it, it is the last. All
    raise `ModelError`: `ModelRefused` if every request is refused (a wrong key or model),
    `RequestRefused` if this one is (too long), any other if a later request may be answered.
    """

    def __init__(self) -> None:
        # Usage of its model so far, with judges and failed requests.
        self.usage = Usage()
        # JSON about its latest turn besides the reply: thoughts, rejected drafts. Recorded, and not
        # shown to the agent.
        self.backstage: dict[str, Any] = {}

    @abstractmethod
    async def areset(self, instruction: str) -> str:
        """Begin a conversation and return the opening message."""

    @abstractmethod
    async def astep(self, content: str) -> str:
        """Take a message of the agent and return the answer."""

    def take_over(self, instruction: str, conversation: Sequence[Heard]) -> None:
        """Continue a recorded conversation; users without this method never get one.

        Args:
            instruction: The argument of `areset`.
            conversation: All messages, first the opening message, which answers `GREETING`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no take_over()")

    def reset(self, instruction: str) -> str:
        """Begin as `areset` does, blocking."""
        return wait_for(self.areset(instruction))

    def step(self, content: str) -> str:
        """Answer as `astep` does, blocking."""
        return wait_for(self.astep(content))


class InstantUser(UserSimulator):
    """A user that never waits: its subclass writes the blocking methods."""

    async def areset(self, instruction: str) -> str:
        """Begin as `reset` does."""
        return self.reset(instruction)

    async def astep(self, content: str) -> str:
        """Answer as `step` does."""
        return self.step(content)

    def take_over(self, instruction: str, conversation: Sequence[Heard]) -> None:
        """Replay the conversation; the answers are equal and cost nothing."""
        self.reset(instruction)
        for one in conversation[1:]:
            self.step(one.heard)


class ScriptedUser(InstantUser):
    """Says its replies in order, the first as the opening, then always `STOP`."""

    def __init__(self, replies: Sequence[str]) -> None:
        super().__init__()
        self.replies = tuple(replies)
        self._said = 0

    def reset(self, instruction: str) -> str:
        """Return the first reply."""
        self._said = 0
        return self.step(instruction)

    def step(self, content: str) -> str:
        """Return the next reply."""
        self._said += 1
        return self.replies[self._said - 1] if self._said <= len(self.replies) else STOP


@dataclass(frozen=True, slots=True)
class UserSetting:
    """The arguments of a strategy, one per episode. Building a user needs no network."""

    config: TauBenchEnvConfig  # the environment's settings
    split: str  # the split of the task
    task_index: int  # index of the task in it
    # Seed of this episode, or `None`; requests derive theirs
    seed: int | None = None
    replies: tuple[str, ...] = field(default=())  # messages of a scripted user
    tools: tuple[str, ...] | None = None  # the user's tools that it shows; ``None`` for all


def register_user(strategy: str, entry_point: str) -> None:
    """Register a strategy's factory; a second registration replaces the first.

    Args:
        strategy: Its name, as in ``user_strategy``.
        entry_point: ``package.module:name`` of a class or function that takes a `UserSetting`;
            imported when the first user is built.
    """
    _strategies[strategy] = entry_point


def user_strategies() -> list[str]:
    """List the names of the strategies, sorted."""
    return sorted(_strategies)


def check_strategy(strategy: str) -> None:
    """Refuse an unknown strategy."""
    if strategy not in _strategies:
        near = did_you_mean(strategy, _strategies)
        raise DataError(f"tau_bench env_config: user_strategy is {strategy!r}. {near}")


def make_user(strategy: str, setting: UserSetting) -> UserSimulator:
    """Build the user of an episode."""
    check_strategy(strategy)
    module, _, name = _strategies[strategy].partition(":")
    build: Callable[[UserSetting], UserSimulator] = getattr(importlib.import_module(module), name)
    return build(setting)


def scripted_user(setting: UserSetting) -> ScriptedUser:
    """Build a user of the ``scripted`` strategy."""
    if not setting.replies:
        raise DataError(
            "tau_bench: a scripted user needs user_replies; the first is its opening message"
        )
    return ScriptedUser(setting.replies)


# By name, so that an episode with a script loads no network libraries.
_strategies: dict[str, str] = {
    "scripted": "skillwright.worlds.tau_bench.users:scripted_user",
    "llm": "skillwright.worlds.tau_bench.user_model:ModelUser",
    "react": "skillwright.worlds.tau_bench.user_model:ReactUser",
    "verify": "skillwright.worlds.tau_bench.user_model:VerifyingUser",
    "reflection": "skillwright.worlds.tau_bench.user_model:ReflectingUser",
    "human": "skillwright.worlds.tau_bench.users:HumanUser",
    "rule_based": "skillwright.worlds.tau_bench.users:RuleUser",
}


# Blocking calls run in one event loop in one daemon thread of the process, so that the episodes of
# a trainer's thread pool share connections.

_CLOSING_S: Final = 2.0

_lock = threading.Lock()
# Per process: a fork copies the loop, but not its thread.
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the shared loop and return its result."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _shared_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _shared_loop() -> asyncio.AbstractEventLoop:
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="tau_bench users", daemon=True).start()
            atexit.register(_close, loop, os.getpid())
        return loop


def _close(loop: asyncio.AbstractEventLoop, pid: int) -> None:
    """Close what was opened on the loop, such as connections, before the process ends."""
    if pid != os.getpid():
        return
    closing = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
    try:
        closing.result(_CLOSING_S)
    except TimeoutError:
        closing.cancel()


# One question at a time, over all episodes.
_terminal: Final = threading.Lock()


class HumanUser(UserSimulator):
    """Asks a person at the terminal for every message (strategy ``human``)."""

    def __init__(self, setting: UserSetting, read_line: Callable[[str], str] = input) -> None:
        super().__init__()
        self._task = f"{setting.split} {setting.task_index}"
        every = DOMAINS[setting.config.domain].user_tools
        self._tools = [one for one in every if setting.tools is None or one in setting.tools]
        self._read_line = read_line
        self._earlier = ""

    async def areset(self, instruction: str) -> str:
        """Show the person's role, and return the opening message."""
        return await self._line(self._role(instruction))

    async def astep(self, content: str) -> str:
        """Show the agent's message, and return the answer."""
        earlier, self._earlier = self._earlier, ""
        return await self._line(f"{earlier}\n[{self._task}] Agent: {content}\n")

    def take_over(self, instruction: str, conversation: Sequence[Heard]) -> None:
        """Show the conversation so far with the next question."""
        said = (f"\n[{self._task}] Agent: {one.heard}\nYou: {one.said}\n" for one in conversation)
        self._earlier = self._role(instruction) + "".join(said)

    def _role(self, instruction: str) -> str:
        call = 'Call a tool by <tool_call>{"name": NAME, "arguments": {}}</tool_call>: '
        tools = f"{call}{', '.join(self._tools)}\n" if self._tools else ""
        return (
            f"\nYou are the customer of task {self._task}: {instruction}\n"
            f"Write {STOP} when you have what you want.\n{tools}"
        )

    async def _line(self, shown: str) -> str:
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not typed.done():
                typed.set_result(line)

        def ask() -> None:
            with _terminal:
                line = self._typed(shown)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, line)

        # A daemon, not the loop's executor, which is waited for: then the program could not end
        # before the person presses Enter.
        threading.Thread(target=ask, name="tau_bench human", daemon=True).start()
        line = await typed
        if line is None:
            raise ModelRefused(
                "no person can play the customer: the terminal's input is closed. Choose "
                "another user_strategy, such as 'llm'."
            )
        return line

    def _typed(self, shown: str) -> str | None:
        """Return a line that is not blank, or ``None`` at the end of the input."""
        try:
            shown = without_controls(shown)  # an agent's words come from a model
            while not (line := self._read_line(f"{shown}You: ").strip()):
                shown = ""
        except (EOFError, OSError):
            return None
        return line


# A customer played by rules, offline: it says sentences of its instruction when the agent asks for
# them. It can split the built-in store's instructions but not tau-bench's, so scores with it say
# nothing about tau-bench.


YES: Final = "Yes, please do."
NO_MORE: Final = "I cannot tell you more about that."

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'(A-Z])")
_WISH: Final = re.compile(r"You (want|would like|wish|need)\b|In your order\b|You have received\b")
_IDENTITY: Final = re.compile(r"\b(email|zip code|you live in|your name is)\b", re.IGNORECASE)
_MANNER: Final = re.compile(r"(You are|You like to)\b")
_CASE: Final = re.compile(r"If [^,]*, ", re.IGNORECASE)
_REQUEST: Final = re.compile(r"\?|\b(please|provide|tell me|let me know|may i|give me)\b")

_REFUSES: Final = re.compile(
    r"\b(cannot|can't|not possible|impossible|unable|not available|unavailable|sorry|not allowed)\b"
)
_ABOUT: Final = {
    "identity": re.compile(r"\b(e-?mail|zip|who (are you|i am)|your name|identity)\b"),
    "reason": re.compile(r"\b(reason|why)\b"),
    "method": re.compile(r"\b(method|refund|pay|paid|card|paypal|difference)\b"),
}
_FACTS: Final = {
    "reason": re.compile(r"no longer need|by mistake|because"),
    "method": re.compile(r"gift card|paypal|card ending", re.IGNORECASE),
}
_CONFIRMS: Final = re.compile(
    r"\byes\b|\bconfirm\b|\bproceed\b|\bgo ahead\b|\bshall i\b|\bcorrect\?|\bis that right"
)
_NUMBER: Final = re.compile(r"\b(order (number|id)|which order)\b")
_ELSE: Final = re.compile(r"\belse\b|\bmore i can do\b|\banother\b")

# "You" is the object of these and becomes "me"; elsewhere it becomes "I".
_OBJECT: Final = re.compile(r"\b(to|for|with|tell|give|send|charge|refund) you\b", re.IGNORECASE)
_FIRST_PERSON: Final = (
    (re.compile(r"\b(Y|y)ou are\b"), "I am"),
    (re.compile(r"\b(Y|y)ourself\b"), "myself"),
    (re.compile(r"\bYour\b"), "My"),
    (re.compile(r"\byour\b"), "my"),
    (re.compile(r"\b(Y|y)ou\b"), "I"),
)


@dataclass(slots=True)
class _Wish:
    """Something that the customer wants."""

    said: str  # the request
    facts: list[str] = field(default_factory=list)  # known facts about it, said when asked
    cases: list[str] = field(default_factory=list)  # alternatives, in order


class RuleUser(InstantUser):
    """Answers from the sentences of its instruction (strategy ``rule_based``)."""

    def __init__(self, setting: UserSetting | None = None) -> None:
        super().__init__()
        del setting
        self._identity = ""
        self._wishes: list[_Wish] = []
        self._wish = _Wish(NO_MORE)

    def reset(self, instruction: str) -> str:
        """Return the first wish."""
        parts = _SENTENCE.split(instruction.strip())
        self._identity = " ".join(first_person(one) for one in parts if _is_identity(one))
        self._wishes = _wishes(one for one in parts if not _is_identity(one))
        self._wish = self._wishes.pop(0) if self._wishes else _Wish(NO_MORE)
        return f"Hello. {self._wish.said}"

    def step(self, content: str) -> str:
        """Answer the agent's question, or state the next wish, or say `STOP`."""
        heard = content.lower()
        asked = [one for one in _SENTENCE.split(heard) if _REQUEST.search(one)]
        if _any(_CONFIRMS, asked):
            return YES
        if _any(_ABOUT["identity"], asked):
            return self._identity or NO_MORE
        for topic in ("reason", "method"):
            if _any(_ABOUT[topic], asked):
                return self._fact(topic)
        if _any(_NUMBER, asked):
            return "I do not remember the order number."
        if self._wish.cases and _REFUSES.search(heard):
            return f"In that case {self._wish.cases.pop(0)}"
        if asked and not _any(_ELSE, asked):
            return self._wish.said
        if not self._wishes or not (asked or _expects_more(heard)):
            return STOP
        self._wish = self._wishes.pop(0)
        return self._wish.said

    def _fact(self, topic: str) -> str:
        known = [one for one in self._wish.facts if _FACTS[topic].search(one)]
        return " ".join(known) or NO_MORE


def first_person(text: str) -> str:
    """Turn a sentence about the customer into one that it says."""
    text = _OBJECT.sub(lambda found: f"{found[1]} me", text)
    for pattern, word in _FIRST_PERSON:
        text = pattern.sub(word, text)
    return text


def _wishes(sentences: Iterable[str]) -> list[_Wish]:
    """Sort sentences: a wish starts a group, unless it only says how the last one is settled."""
    wishes: list[_Wish] = []
    for sentence in sentences:
        case = _CASE.match(sentence)
        is_detail = bool(wishes) and bool(re.match(r"You want (the refund|to settle)", sentence))
        if case and wishes:
            wishes[-1].cases.append(first_person(sentence[case.end() :]))
        elif _WISH.match(sentence) and not is_detail:
            wishes.append(_Wish(first_person(sentence)))
        elif wishes and not _MANNER.match(sentence):
            wishes[-1].facts.append(first_person(sentence))
    return wishes


def _is_identity(sentence: str) -> bool:
    return bool(_IDENTITY.search(sentence)) and not _WISH.match(sentence)


def _any(pattern: re.Pattern[str], sentences: Iterable[str]) -> bool:
    return any(pattern.search(sentence) for sentence in sentences)


def _expects_more(heard: str) -> bool:
    """Tell whether the agent expects an answer; after a goodbye it does not."""
    return "goodbye" not in heard and "bye" not in heard.split()

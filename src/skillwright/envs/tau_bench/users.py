"""Simulated users: what one must do, the strategies by name, and the one that reads from a script.

A server that cannot be reached, or answers nonsense, raises a `ModelError`; that is never a reply,
since a reply could end the episode and be paid.
"""

import asyncio
import atexit
import importlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from skillwright.core import DataError, Usage, did_you_mean
from skillwright.envs.tau_bench.config import TauBenchEnvConfig

T = TypeVar("T")

STOP: Final = "###STOP###"
"""A user whose reply contains this has nothing more to say; it is looked for nowhere else."""

GREETING: Final = "Hi! How can I help you today?"
"""What a user is told to have heard first, before its opening message."""


class UserSimulator(ABC):
    """What plays the customer of one episode; the blocking pair waits for the other.

    Every method returns what the customer says, never blank; with `STOP` in it, it is the last
    thing. All raise `ModelError`, whose kind says what to do: `ModelRefused` that no request will
    ever be answered (a wrong key or model), `RequestRefused` that this one is not (it has become
    too long), any other that it may be answered another time.
    """

    def __init__(self) -> None:
        # What its model has consumed so far, judges and failed requests included.
        self.usage = Usage()
        # What went on in its latest turn beside the reply, as JSON: thoughts, refused drafts. It
        # is recorded, and shown to no agent.
        self.backstage: dict[str, Any] = {}

    @abstractmethod
    async def areset(self, instruction: str) -> str:
        """Begin a conversation and say the opening message."""

    @abstractmethod
    async def astep(self, content: str) -> str:
        """Hear what the agent says and answer."""

    def reset(self, instruction: str) -> str:
        """Do what `areset` does, blocking."""
        return _wait_for(self.areset(instruction))

    def step(self, content: str) -> str:
        """Do what `astep` does, blocking."""
        return _wait_for(self.astep(content))


class InstantUser(UserSimulator):
    """A user that waits for nobody: its subclass writes the blocking pair."""

    async def areset(self, instruction: str) -> str:
        """Do what `reset` does."""
        return self.reset(instruction)

    async def astep(self, content: str) -> str:
        """Do what `step` does."""
        return self.step(content)


class ScriptedUser(InstantUser):
    """Says its replies in order, then `STOP` for ever; the opening message is the first of them."""

    def __init__(self, replies: Sequence[str]) -> None:
        super().__init__()
        self.replies = tuple(replies)
        self._said = 0

    def reset(self, instruction: str) -> str:
        """Say the first reply."""
        self._said = 0
        return self.step(instruction)

    def step(self, content: str) -> str:
        """Say the next reply."""
        self._said += 1
        return self.replies[self._said - 1] if self._said <= len(self.replies) else STOP


@dataclass(frozen=True, slots=True)
class UserSetting:
    """What a strategy builds a user from, one per episode. Building touches no network."""

    config: TauBenchEnvConfig  # the environment's settings
    split: str  # the split of the task
    task_index: int  # the task in it
    # The luck of this episode, or `None`; each request's is derived from it
    seed: int | None = None
    replies: tuple[str, ...] = field(default=())  # what a scripted user says


def register_user(strategy: str, entry_point: str) -> None:
    """Register what builds the users of a strategy.

    Args:
        strategy: Its name, as in ``user_strategy``. Registering it again replaces it.
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


# By name, so that an episode with a script loads no network stack.
_strategies: dict[str, str] = {
    "scripted": "skillwright.envs.tau_bench.users:scripted_user",
    "llm": "skillwright.envs.tau_bench.user_model:ModelUser",
    "react": "skillwright.envs.tau_bench.user_react:ReactUser",
    "verify": "skillwright.envs.tau_bench.user_checked:VerifyingUser",
    "reflection": "skillwright.envs.tau_bench.user_checked:ReflectingUser",
    "human": "skillwright.envs.tau_bench.user_human:HumanUser",
    "rule_based": "skillwright.envs.tau_bench.user_rules:RuleUser",
}


# Waiting for a coroutine from a thread that has no event loop, or whose loop must not be blocked:
# one loop in one daemon thread serves the process, so that connections are shared between the
# episodes of a trainer's thread pool.

_CLOSING_S: Final = 2.0

_lock = threading.Lock()
# By process: a fork copies the loop, but not the thread that runs it.
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
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
    """Let what was opened on the loop be closed, connections above all, before the process ends."""
    if pid != os.getpid():
        return
    closing = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
    try:
        closing.result(_CLOSING_S)
    except TimeoutError:
        closing.cancel()

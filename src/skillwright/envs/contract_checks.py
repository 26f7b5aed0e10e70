"""What an environment is asked, one function for each question of its contract.

A function returns what was seen, and raises `ContractError` where the contract is broken; whatever
else it raises was raised by the environment, and is a finding too.
"""

import inspect
import math
import pickle
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

from skillwright.core import ContractError, Task, ToolCall
from skillwright.core.jsonio import canonical
from skillwright.core.seeds import derive_seed
from skillwright.core.tool_calls import untagged
from skillwright.envs.drive import (
    Reply,
    metrics_of,
    native_tools,
    open_env,
    step_env,
    step_env_native,
)
from skillwright.envs.fuzz import fuzz_action
from skillwright.envs.registry import EnvSpec
from skillwright.envs.text_env import DEFAULT_MAX_TURNS, TextEnv

SHORT_EPISODE_TURNS = 3
_SLACK = 1e-9  # that of the engine: thirds do not add up to 1 exactly
IDLE_ACTIONS = ("look", "help", "0", "yes")

Chooser = Callable[[Reply], str]


class NotAsked(Exception):
    """A question that does not apply; the message says what would make it apply."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The environment under examination."""

    spec: EnvSpec
    env_class: type[TextEnv]
    env_config: object | None
    extras_list: tuple[Mapping[str, Any], ...]
    seed: int
    fuzz: int

    def build(self, extras: Mapping[str, Any], **more: Any) -> TextEnv:
        """Build an episode's environment; its luck is the same each time."""
        luck = derive_seed("contract", self.seed)
        return self.env_class(env_config=self.env_config, extras={"seed": luck, **extras, **more})

    def rng(self, purpose: str) -> random.Random:
        """Return the luck of one question."""
        return random.Random(derive_seed(purpose, self.seed))


async def plain_extras(subject: Subject) -> str:
    """Are the extras plain JSON?"""
    for index, extras in enumerate(subject.extras_list):
        try:
            canonical(dict(extras))
        except (TypeError, ValueError) as error:
            raise ContractError(f"extras {index} are not plain JSON: {error}") from error
    return f"{len(subject.extras_list)} tasks"


async def spec_pickles(subject: Subject) -> str:
    """Does a pickled spec lead to the same class?"""
    copy = pickle.loads(pickle.dumps(subject.spec))
    if copy.load() is not subject.env_class:
        raise ContractError(f"{subject.spec.entry_point!r} loads another class each time")
    return subject.spec.entry_point


async def builds(subject: Subject) -> str:
    """Does the constructor work, and leave its extras alone? The first may fill a cache."""
    took_ms = []
    for extras in subject.extras_list:
        before = canonical(dict(extras))
        started = time.perf_counter()
        env = subject.build(extras)
        took_ms.append((time.perf_counter() - started) * 1000)
        env.close()
        if canonical(dict(extras)) != before:
            raise ContractError("the constructor changes the extras that it is given")
    return f"{median(took_ms):.2f} ms each, {max(took_ms):.2f} ms at most"


async def opens(subject: Subject) -> str:
    """Does init() return a conversation that can be stored?"""
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            _json_of(await open_env(env))
    return f"{len(subject.extras_list)} openings"


async def steps(subject: Subject) -> str:
    """Does step() return what it must, and what can be stored?"""
    rng, turns = subject.rng("steps"), 0
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            for reply in await _play(env, partial(_choose, rng), _most_turns(extras)):
                _json_of(reply)
                turns += 1
    return f"{turns} replies"


async def rewards(subject: Subject) -> str:
    """Do the rewards of the steps add up to one in [0, 1], played at random, badly, and idly?"""
    rng, sums = subject.rng("rewards"), []
    for index, extras in enumerate(subject.extras_list):
        for choose in (partial(_choose, rng), partial(_clumsy, rng), _idle):
            with closing(subject.build(extras)) as env:
                replies = await _play(env, choose, _most_turns(extras))
            sums.append(sum(reply.reward for reply in replies))
            if not -_SLACK <= sums[-1] <= 1 + _SLACK:
                raise ContractError(f"task {index}: the rewards of an episode add up to {sums[-1]}")
    return f"from {min(sums):g} to {max(sums):g} in {len(sums)} episodes"


async def repeats(subject: Subject) -> str:
    """Is an episode repeated byte by byte, also twice side by side, where shared state shows?"""
    for index, extras in enumerate(subject.extras_list):
        actions = _Recorded(partial(_choose, subject.rng("repeats")))
        with closing(subject.build(extras)) as env:
            first = await _play(env, actions, _most_turns(extras))
        with closing(subject.build(extras)) as one, closing(subject.build(extras)) as two:
            replies = [(await open_env(one), await open_env(two))]
            for action in actions.chosen:
                replies.append((await _step(one, action), await _step(two, action)))
        for turn, (expected, twins) in enumerate(zip(first, replies, strict=True)):
            if {_json_of(twin) for twin in twins} != {_json_of(expected)}:
                raise ContractError(
                    f"task {index}: reply {turn} differs between equal episodes (0 is the opening)"
                )
    return "byte-equal"


async def ends(subject: Subject) -> str:
    """Is an episode over when its turns are used up?"""
    for index, extras in enumerate(subject.extras_list):
        for bound in ({}, {"max_turns": SHORT_EPISODE_TURNS}):
            most = _most_turns({**extras, **bound})
            with closing(subject.build(extras, **bound)) as env:
                replies = await _play(env, _idle, most)
            if not replies[-1].done:
                raise ContractError(f"task {index}: not over after max_turns = {most} turns")
    return f"also where max_turns is {SHORT_EPISODE_TURNS}"


async def survives(subject: Subject) -> str:
    """Does step() take whatever a model may write?"""
    rng, actions = subject.rng("fuzz"), 0
    for extras in cycle(subject.extras_list):
        with closing(subject.build(extras)) as env:
            reply = await open_env(env)
            for _ in range(_most_turns(extras)):
                if reply.done:
                    break
                if actions == subject.fuzz:
                    return f"{actions} actions"
                action = fuzz_action(rng, _admissible(reply))
                actions += 1
                try:
                    reply = await _survive(env, action, rng)
                    _json_of(reply)
                except Exception as error:
                    raise ContractError(f"step({action!r:.120}) raised {error!r:.200}") from error
    raise AssertionError("cycle never ends")


async def closes(subject: Subject) -> str:
    """Can an episode be closed before it begins, in the middle, and twice?"""
    for extras in subject.extras_list:
        subject.build(extras).close()
        env = subject.build(extras)
        await open_env(env)
        env.close()
        env.close()
    return "before init, and twice after"


async def measures(subject: Subject) -> str:
    """Are the metrics finite numbers?"""
    names: set[str] = set()
    rng = subject.rng("metrics")
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            await _play(env, partial(_choose, rng), _most_turns(extras))
            names |= metrics_of(env).keys()
    return ", ".join(sorted(names)) or "none offered"


async def names_tasks(subject: Subject) -> str:
    """Are category and scope texts?"""
    if not issubclass(subject.env_class, TextEnv):
        raise NotAsked("category() and scope() are TextEnv's")
    kinds = set()
    for index, extras in enumerate(subject.extras_list):
        task = Task(id=f"task-{index}", env=subject.spec.name, extras=extras)
        said = (subject.env_class.category(task), subject.env_class.scope(task))
        if not all(isinstance(one, str) for one in said):
            raise ContractError(f"task {index}: category and scope are {said!r}, not two texts")
        kinds |= {one for one in said if one}
    return ", ".join(sorted(kinds)) or "no category without a task_type"


async def gold_wins(subject: Subject) -> str:
    """Is a solution rewarded with 1?"""
    solve = getattr(subject.env_class, "gold_actions", None)
    if solve is None:
        raise NotAsked("a static gold_actions(extras) would show that every task can be solved")
    wants_config = "env_config" in inspect.signature(solve).parameters
    more = {"env_config": subject.env_config} if wants_config else {}
    for index, extras in enumerate(subject.extras_list):
        actions = list(solve(dict(extras), **more))
        with closing(subject.build(extras)) as env:
            replies = await _play(env, partial(_next_of, iter(actions)), len(actions))
        reward = sum(reply.reward for reply in replies)
        if not math.isclose(reward, 1.0):
            state = "is over" if replies[-1].done else "goes on"
            raise ContractError(
                f"task {index}: its gold solution is rewarded {reward}, not 1; the episode {state} "
                f"after {len(replies) - 1} of {len(actions)} actions"
            )
    return f"{len(subject.extras_list)} tasks solved"


async def _play(env: TextEnv, choose: Chooser, most_turns: int) -> list[Reply]:
    """Play until the episode is over or its turns are used up; the first reply is the opening."""
    replies = [await open_env(env)]
    while not replies[-1].done and len(replies) <= most_turns:
        replies.append(await _step(env, choose(replies[-1])))
    return replies


async def _step(env: TextEnv, action: str) -> Reply:
    """Take an action; where tools are called natively, the calls that are tagged in it."""
    if not native_tools(env):
        return await step_env(env, action)
    return await step_env_native(env, *untagged(action))


async def _survive(env: TextEnv, action: str, rng: random.Random) -> Reply:
    """Take a strange action; where tools are called natively, as a text, or as a tool's input."""
    tools = native_tools(env)
    if not tools or rng.random() < 0.5:
        return await _step(env, action)
    name = rng.choice([*(tool["function"]["name"] for tool in tools), action])
    return await step_env_native(env, "", [ToolCall("call_0", name, action)])


class _Recorded:
    """Chooses as another chooser does, and keeps what was chosen."""

    def __init__(self, choose: Chooser) -> None:
        self.chosen: list[str] = []
        self._choose = choose

    def __call__(self, reply: Reply) -> str:
        self.chosen.append(self._choose(reply))
        return self.chosen[-1]


def _choose(rng: random.Random, reply: Reply) -> str:
    return rng.choice(_admissible(reply) or IDLE_ACTIONS)


def _clumsy(rng: random.Random, reply: Reply) -> str:
    return fuzz_action(rng, _admissible(reply))


def _idle(reply: Reply) -> str:
    del reply
    return IDLE_ACTIONS[0]


def _next_of(actions: Iterator[str], reply: Reply) -> str:
    del reply
    return next(actions)


def _admissible(reply: Reply) -> list[str]:
    offered = reply.metadata.get("admissible_commands")
    return [str(command) for command in offered] if isinstance(offered, list | tuple) else []


def _most_turns(extras: Mapping[str, Any]) -> int:
    return max(1, int(extras.get("max_turns", DEFAULT_MAX_TURNS)))


def _json_of(reply: Reply) -> str:
    try:
        return canonical([reply.messages, dict(reply.metadata), reply.reward, reply.done])
    except (TypeError, ValueError) as error:
        raise ContractError(f"a reply is no plain JSON, so it cannot be stored: {error}") from error

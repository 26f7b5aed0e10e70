"""The checks of any environment: `skillwright env check`.

A check returns what it found, and raises `ContractError` for a violation; any other error comes
from the environment, and is a finding too.
"""

import asyncio
import math
import pickle
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

from skillwright.core import ContractError, DataError, Task, ToolCall
from skillwright.core.agent import untagged
from skillwright.core.jsonio import canonical
from skillwright.core.seeds import derive_seed
from skillwright.envs.adapter import EnvAdapter
from skillwright.envs.drive import (
    Reply,
    fuzz_action,
    metrics_of,
    native_tools,
    open_env,
    step_env,
    step_env_native,
)
from skillwright.envs.registry import EnvSpec, spec
from skillwright.envs.text_env import DEFAULT_MAX_TURNS, TextEnv, with_config

_SHORT_EPISODE_TURNS = 3
_SLACK = 1e-9  # the engine's: thirds do not add up to 1 exactly
_IDLE_ACTIONS = ("look", "help", "0", "yes")

_Chooser = Callable[[Reply], str]


@dataclass(frozen=True, slots=True)
class Check:
    """One check of an environment.

    Attributes:
        name: The requirement.
        ok: Whether it is met.
        detail: The finding, and after a failure the next step.
        asked: False if the environment does not offer the feature; then ``ok`` is true.
    """

    name: str
    ok: bool
    detail: str
    asked: bool = True


@dataclass(frozen=True, slots=True)
class ContractReport:
    """The checks of one environment, in order; after a failed ``builds`` there are no more."""

    env: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        checks = [asdict(check) for check in self.checks]
        return {"env": self.env, "ok": self.ok, "checks": checks}


class _NotAsked(Exception):
    """A check that does not apply; the message says what would make it apply."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The checked environment."""

    spec: EnvSpec
    env_class: type[TextEnv]
    env_config: object | None
    extras_list: tuple[Mapping[str, Any], ...]
    seed: int
    fuzz: int

    def build(self, extras: Mapping[str, Any], **more: Any) -> TextEnv:
        """Build an episode's environment, with the same seed each time."""
        seed = derive_seed("contract", self.seed)
        return self.env_class(env_config=self.env_config, extras={"seed": seed, **extras, **more})

    def rng(self, purpose: str) -> random.Random:
        """Return the random generator of one question."""
        return random.Random(derive_seed(purpose, self.seed))


_Examine = Callable[[_Subject], Awaitable[str]]
_checks: list[tuple[str, _Examine, str]] = []


def _asks(name: str, next_move: str) -> Callable[[_Examine], _Examine]:
    """Register a function as the next check: its requirement, and the next step on failure."""

    def enter(examine: _Examine) -> _Examine:
        _checks.append((name, examine, next_move))
        return examine

    return enter


def check_env(
    spec_name: str,
    *,
    extras_list: Sequence[Mapping[str, Any]] | None = None,
    env_config: object | None = None,
    seed: int = 0,
    fuzz: int = 1000,
) -> ContractReport:
    """Check an environment in a separate event loop.

    A class with ``gold_actions(extras) -> list[str]`` has its solutions played too; if they depend
    on the settings, it takes ``env_config`` by keyword.

    Args:
        spec_name: Name, import path or file, as `registry.spec` takes it.
        extras_list: The extras of some tasks, used in every check; ``None`` takes
            `TextEnv.examples`.
        env_config: Settings; ``None`` takes the registered ones.
        seed: Seed of the actions.
        fuzz: Number of strange actions.

    Raises:
        DataError: The environment is unknown or cannot be imported, its ``examples`` raised, or
            there are no extras.
    """
    found = spec(spec_name)
    if isinstance(named := found.find(), type) and issubclass(named, EnvAdapter):
        raise DataError(
            f"{spec_name!r} is an EnvAdapter, which plays whole batches; `skillwright doctor "
            "CONFIG` checks one with its data, and `skillwright eval` plays a split"
        )
    env_class = found.load()
    config = found.env_config if env_config is None else env_config
    if extras_list is None:
        extras_list = _examples(env_class, config)
    if not extras_list:
        raise DataError(
            f"environment {spec_name!r} needs the extras of at least one task to be checked; "
            "[{}] stands for a task without any"
        )
    subject = _Subject(found, env_class, config, tuple(extras_list), seed, fuzz)
    return asyncio.run(_examine(subject))


def _examples(env_class: type[TextEnv], config: object | None) -> Sequence[Mapping[str, Any]]:
    try:
        return tuple(with_config(getattr(env_class, "examples", lambda: [{}]), config)())
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{env_class.__name__}.examples() raised {error!r}; it is a classmethod that returns "
            "the extras of a few episodes"
        ) from error


async def _examine(subject: _Subject) -> ContractReport:
    checks: list[Check] = []
    for name, examine, next_move in _checks:
        try:
            checks.append(Check(name, True, await examine(subject)))
        except _NotAsked as reason:
            checks.append(Check(name, True, str(reason), asked=False))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            said = str(error) if isinstance(error, ContractError) else f"raised {error!r}"
            checks.append(Check(name, False, f"{said}. {next_move}"))
        if name == "builds" and not checks[-1].ok:
            break
    return ContractReport(subject.spec.name, tuple(checks))


@_asks(
    "extras are JSON",
    "Use strings, numbers, booleans, null, lists and objects with string keys only.",
)
async def _plain_extras(subject: _Subject) -> str:
    for index, extras in enumerate(subject.extras_list):
        try:
            canonical(dict(extras))
        except (TypeError, ValueError) as error:
            raise ContractError(f"extras {index} are not plain JSON: {error}") from error
    return f"{len(subject.extras_list)} tasks"


@_asks("spec pickles", "Define the class at the top level of an importable module.")
async def _spec_pickles(subject: _Subject) -> str:
    copy = pickle.loads(pickle.dumps(subject.spec))
    if copy.load() is not subject.env_class:
        raise ContractError(f"{subject.spec.entry_point!r} loads another class each time")
    return subject.spec.entry_point


@_asks(
    "builds",
    "The constructor is called as Class(env_config=..., extras=...) and copies its extras. One "
    "that needs extras has examples() with those of a few tasks, or is checked with --items.",
)
async def _builds(subject: _Subject) -> str:
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


@_asks(
    "opens",
    "init(prompt) returns (messages, metadata): messages with role and content, plain JSON.",
)
async def _opens(subject: _Subject) -> str:
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            _json_of(await open_env(env))
    return f"{len(subject.extras_list)} openings"


@_asks(
    "steps", "step(action) returns a StepOutput: observations, reward, done, metadata, plain JSON."
)
async def _steps(subject: _Subject) -> str:
    """Does step() return what it must, and what can be stored?"""
    rng, turns = subject.rng("steps"), 0
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            for reply in await _play(env, partial(_choose, rng), _most_turns(extras)):
                _json_of(reply)
                turns += 1
    return f"{turns} replies"


@_asks(
    "rewards lie in [0, 1]",
    "Share the reward of an episode out over its steps; a whole success is 1.",
)
async def _rewards(subject: _Subject) -> str:
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


@_asks(
    "repeats by seed",
    "Draw all randomness from random.Random(extras['seed']), and share no state between episodes.",
)
async def _repeats(subject: _Subject) -> str:
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


@_asks(
    "ends within max_turns",
    "Count self.turns in step(); TextEnv.reply() then ends the episode at extras['max_turns'].",
)
async def _ends(subject: _Subject) -> str:
    for index, extras in enumerate(subject.extras_list):
        for bound in ({}, {"max_turns": _SHORT_EPISODE_TURNS}):
            most = _most_turns({**extras, **bound})
            with closing(subject.build(extras, **bound)) as env:
                replies = await _play(env, _idle, most)
            if not replies[-1].done:
                raise ContractError(f"task {index}: not over after max_turns = {most} turns")
    return f"also where max_turns is {_SHORT_EPISODE_TURNS}"


@_asks(
    "survives any action",
    "step() answers a clumsy move with an observation; it never raises for what a model wrote.",
)
async def _survives(subject: _Subject) -> str:
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


@_asks("closes twice", "close() must be harmless before init() and when called again.")
async def _closes(subject: _Subject) -> str:
    """Can an episode be closed before it begins, in the middle, and twice?"""
    for extras in subject.extras_list:
        subject.build(extras).close()
        env = subject.build(extras)
        await open_env(env)
        env.close()
        env.close()
    return "before init, and twice after"


@_asks("metrics are numbers", "get_metrics() returns finite numbers by name.")
async def _measures(subject: _Subject) -> str:
    names: set[str] = set()
    rng = subject.rng("metrics")
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            await _play(env, partial(_choose, rng), _most_turns(extras))
            names |= metrics_of(env).keys()
    return ", ".join(sorted(names)) or "none offered"


@_asks(
    "tells category and scope",
    'category(task) and scope(task) are classmethods that return a text, "" for none.',
)
async def _names_tasks(subject: _Subject) -> str:
    if not issubclass(subject.env_class, TextEnv):
        raise _NotAsked("category() and scope() are TextEnv's")
    kinds = set()
    for index, extras in enumerate(subject.extras_list):
        task = Task(id=f"task-{index}", env=subject.spec.name, extras=extras)
        said = (subject.env_class.category(task), subject.env_class.scope(task))
        if not all(isinstance(one, str) for one in said):
            raise ContractError(f"task {index}: category and scope are {said!r}, not two texts")
        kinds |= {one for one in said if one}
    return ", ".join(sorted(kinds)) or "no category without a task_type"


@_asks(
    "gold solutions win",
    "gold_actions(extras) must solve the task, or the reward of the last step is wrong.",
)
async def _gold_wins(subject: _Subject) -> str:
    solve = getattr(subject.env_class, "gold_actions", None)
    if solve is None:
        raise _NotAsked("a static gold_actions(extras) would show that every task can be solved")
    solve = with_config(solve, subject.env_config)
    for index, extras in enumerate(subject.extras_list):
        actions = list(solve(dict(extras)))
        with closing(subject.build(extras)) as env:
            replies = await _play(env, partial(_next_of, iter(actions)), len(actions))
        reward = sum(reply.reward for reply in replies)
        if not math.isclose(reward, 1.0):
            state = "is over" if replies[-1].done else "continues"
            raise ContractError(
                f"task {index}: its gold solution is rewarded {reward}, not 1; the episode {state} "
                f"after {len(replies) - 1} of {len(actions)} actions"
            )
    return f"{len(subject.extras_list)} tasks solved"


async def _play(env: TextEnv, choose: _Chooser, most_turns: int) -> list[Reply]:
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

    def __init__(self, choose: _Chooser) -> None:
        self.chosen: list[str] = []
        self._choose = choose

    def __call__(self, reply: Reply) -> str:
        self.chosen.append(self._choose(reply))
        return self.chosen[-1]


def _choose(rng: random.Random, reply: Reply) -> str:
    return rng.choice(_admissible(reply) or _IDLE_ACTIONS)


def _clumsy(rng: random.Random, reply: Reply) -> str:
    return fuzz_action(rng, _admissible(reply))


def _idle(reply: Reply) -> str:
    return _IDLE_ACTIONS[0]


def _next_of(actions: Iterator[str], reply: Reply) -> str:
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

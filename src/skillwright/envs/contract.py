"""The checks that any environment must pass, ours and other people's: `skillwright env check`."""

import asyncio
import math
import pickle
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from skillwright.core import ContractError, DataError
from skillwright.core.jsonio import canonical
from skillwright.core.seeds import derive_seed
from skillwright.envs.drive import Reply, metrics_of, open_env, step_env
from skillwright.envs.fuzz import fuzz_action
from skillwright.envs.registry import EnvSpec, spec
from skillwright.envs.text_env import DEFAULT_MAX_TURNS, TextEnv

SHORT_EPISODE_TURNS = 3
IDLE_ACTIONS = ("look", "help", "0", "yes")

Chooser = Callable[[Reply], str]


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an environment, and the answer.

    Attributes:
        name: What must hold.
        ok: Whether it does.
        detail: What was seen, and where it does not hold, the next move.
    """

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ContractReport:
    """What the checks of one environment found.

    Attributes:
        env: The name that was asked for.
        checks: In order; those after a failed ``builds`` were not run.
    """

    env: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        checks = [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in self.checks]
        return {"env": self.env, "ok": self.ok, "checks": checks}


def check_env(
    spec_name: str,
    *,
    extras_list: Sequence[Mapping[str, Any]] | None = None,
    env_config: object | None = None,
    seed: int = 0,
    fuzz: int = 1000,
) -> ContractReport:
    """Check an environment against its contract, in an event loop of its own.

    A class that offers ``gold_actions(extras) -> list[str]`` has its solutions played too.

    Args:
        spec_name: Name, import path or file, as `registry.spec` takes it.
        extras_list: The extras of some tasks; every check looks at all of them. ``None`` takes
            the class's own `TextEnv.examples`.
        env_config: Settings; ``None`` takes those that were registered.
        seed: Chooses the actions.
        fuzz: Actions that no environment asked for.

    Raises:
        DataError: The environment is unknown or cannot be imported, or there are no extras.
    """
    found = spec(spec_name)
    env_class = found.load()
    if extras_list is None:
        extras_list = getattr(env_class, "examples", lambda: [{}])()
    if not extras_list:
        raise DataError(
            f"environment {spec_name!r} needs the extras of at least one task to be checked; "
            "[{}] stands for a task without any"
        )
    config = found.env_config if env_config is None else env_config
    subject = _Subject(found, env_class, config, tuple(extras_list), seed, fuzz)
    return asyncio.run(_examine(subject))


@dataclass(frozen=True, slots=True)
class _Subject:
    """The environment under examination."""

    spec: EnvSpec
    env_class: type[TextEnv]
    env_config: object | None
    extras_list: tuple[Mapping[str, Any], ...]
    seed: int
    fuzz: int

    def build(self, extras: Mapping[str, Any], **more: Any) -> TextEnv:
        luck = derive_seed("contract", self.seed)
        return self.env_class(env_config=self.env_config, extras={"seed": luck, **extras, **more})

    def rng(self, purpose: str) -> random.Random:
        return random.Random(derive_seed(purpose, self.seed))


async def _examine(subject: _Subject) -> ContractReport:
    checks: list[Check] = []
    for name, examine, next_move in _CHECKS:
        try:
            checks.append(Check(name, True, await examine(subject)))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            said = str(error) if isinstance(error, ContractError) else f"raised {error!r}"
            checks.append(Check(name, False, f"{said}. {next_move}"))
        if name == "builds" and not checks[-1].ok:
            break
    return ContractReport(subject.spec.name, tuple(checks))


async def _plain_extras(subject: _Subject) -> str:
    for index, extras in enumerate(subject.extras_list):
        try:
            canonical(dict(extras))
        except (TypeError, ValueError) as error:
            raise ContractError(f"extras {index} are not plain JSON: {error}") from error
    return f"{len(subject.extras_list)} tasks"


async def _spec_pickles(subject: _Subject) -> str:
    copy = pickle.loads(pickle.dumps(subject.spec))
    if copy.load() is not subject.env_class:
        raise ContractError(f"{subject.spec.entry_point!r} loads another class each time")
    return subject.spec.entry_point


async def _builds(subject: _Subject) -> str:
    started = time.perf_counter()
    for extras in subject.extras_list:
        before = canonical(dict(extras))
        subject.build(extras).close()
        if canonical(dict(extras)) != before:
            raise ContractError("the constructor changes the extras that it is given")
    each_ms = (time.perf_counter() - started) * 1000 / len(subject.extras_list)
    return f"{each_ms:.2f} ms each"


async def _opens(subject: _Subject) -> str:
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            _json_of(await open_env(env))
    return f"{len(subject.extras_list)} openings"


async def _steps(subject: _Subject) -> str:
    rng, turns = subject.rng("steps"), 0
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            for reply in await _play(env, partial(_choose, rng), _most_turns(extras)):
                _json_of(reply)
                turns += 1
    return f"{turns} replies"


async def _repeats(subject: _Subject) -> str:
    """Play an episode, then twice more side by side, so that shared state would show."""
    for index, extras in enumerate(subject.extras_list):
        actions = _Recorded(partial(_choose, subject.rng("repeats")))
        with closing(subject.build(extras)) as env:
            first = await _play(env, actions, _most_turns(extras))
        with closing(subject.build(extras)) as one, closing(subject.build(extras)) as two:
            replies = [(await open_env(one), await open_env(two))]
            for action in actions.chosen:
                replies.append((await step_env(one, action), await step_env(two, action)))
        for turn, (expected, twins) in enumerate(zip(first, replies, strict=True)):
            if {_json_of(twin) for twin in twins} != {_json_of(expected)}:
                raise ContractError(
                    f"task {index}: reply {turn} differs between equal episodes (0 is the opening)"
                )
    return "byte-equal"


async def _ends(subject: _Subject) -> str:
    for index, extras in enumerate(subject.extras_list):
        for bound in ({}, {"max_turns": SHORT_EPISODE_TURNS}):
            most = _most_turns({**extras, **bound})
            with closing(subject.build(extras, **bound)) as env:
                replies = await _play(env, lambda _: IDLE_ACTIONS[0], most)
            if not replies[-1].done:
                raise ContractError(f"task {index}: not over after max_turns = {most} turns")
    return f"also where max_turns is {SHORT_EPISODE_TURNS}"


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
                    reply = await step_env(env, action)
                except Exception as error:
                    raise ContractError(f"step({action!r:.120}) raised {error!r:.200}") from error
    raise AssertionError("cycle never ends")


async def _closes(subject: _Subject) -> str:
    for extras in subject.extras_list:
        subject.build(extras).close()
        env = subject.build(extras)
        await open_env(env)
        env.close()
        env.close()
    return "before init, and twice after"


async def _measures(subject: _Subject) -> str:
    names: set[str] = set()
    rng = subject.rng("metrics")
    for extras in subject.extras_list:
        with closing(subject.build(extras)) as env:
            await _play(env, partial(_choose, rng), _most_turns(extras))
            names |= metrics_of(env).keys()
    return ", ".join(sorted(names)) or "none offered"


async def _gold_wins(subject: _Subject) -> str:
    solve = getattr(subject.env_class, "gold_actions", None)
    if solve is None:
        return "not run: a static gold_actions(extras) would show that every task can be solved"
    for index, extras in enumerate(subject.extras_list):
        actions = list(solve(dict(extras)))
        with closing(subject.build(extras)) as env:
            replies = await _play(env, partial(_next_of, iter(actions)), len(actions))
        reward = sum(reply.reward for reply in replies)
        if not math.isclose(reward, 1.0):
            raise ContractError(f"task {index}: its gold solution is rewarded {reward}, not 1")
    return f"{len(subject.extras_list)} tasks solved"


_CHECKS: tuple[tuple[str, Callable[[_Subject], Awaitable[str]], str], ...] = (
    (
        "extras are JSON",
        _plain_extras,
        "Use strings, numbers, booleans, null, lists and objects with string keys only.",
    ),
    (
        "spec pickles",
        _spec_pickles,
        "Define the class at the top level of an importable module.",
    ),
    (
        "builds",
        _builds,
        "The constructor is called as Class(env_config=..., extras=...) and copies its extras.",
    ),
    (
        "opens",
        _opens,
        "init(prompt) returns (messages, metadata): messages with role and content, plain JSON.",
    ),
    (
        "steps",
        _steps,
        "step(action) returns a StepOutput: observations, reward, done, metadata, plain JSON.",
    ),
    (
        "repeats by seed",
        _repeats,
        "Draw all luck from random.Random(extras['seed']), and share no state between episodes.",
    ),
    (
        "ends within max_turns",
        _ends,
        "Count self.turns in step(); TextEnv.reply() then ends the episode at extras['max_turns'].",
    ),
    (
        "survives any action",
        _survives,
        "step() answers a clumsy move with an observation; it never raises for what a model wrote.",
    ),
    ("closes twice", _closes, "close() must be harmless before init() and when called again."),
    ("metrics are numbers", _measures, "get_metrics() returns finite numbers by name."),
    (
        "gold solutions win",
        _gold_wins,
        "gold_actions(extras) must solve the task, or the reward of the last step is wrong.",
    ),
)


async def _play(env: TextEnv, choose: Chooser, most_turns: int) -> list[Reply]:
    """Play until the episode is over or its turns are used up; the first reply is the opening."""
    replies = [await open_env(env)]
    while not replies[-1].done and len(replies) <= most_turns:
        replies.append(await step_env(env, choose(replies[-1])))
    return replies


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

"""The checks that any environment must pass, ours and other people's: `skillwright env check`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skillwright.core import ContractError, DataError
from skillwright.envs import contract_checks as asks
from skillwright.envs.adapter import EnvAdapter
from skillwright.envs.contract_checks import NotAsked, Subject
from skillwright.envs.registry import spec
from skillwright.envs.text_env import TextEnv


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an environment, and the answer.

    Attributes:
        name: What must hold.
        ok: Whether it does.
        detail: What was seen, and where it does not hold, the next move.
        asked: False where the environment does not offer what is asked for; ``ok`` is true then.
    """

    name: str
    ok: bool
    detail: str
    asked: bool = True


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
        checks = [asdict(check) for check in self.checks]
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

    A class that offers ``gold_actions(extras) -> list[str]`` has its solutions played too; one
    whose solutions depend on the settings takes ``env_config`` by keyword.

    Args:
        spec_name: Name, import path or file, as `registry.spec` takes it.
        extras_list: The extras of some tasks; every check looks at all of them. ``None`` takes
            the class's own `TextEnv.examples`.
        env_config: Settings; ``None`` takes those that were registered.
        seed: Chooses the actions.
        fuzz: Actions that no environment asked for.

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
    if extras_list is None:
        extras_list = _examples(env_class)
    if not extras_list:
        raise DataError(
            f"environment {spec_name!r} needs the extras of at least one task to be checked; "
            "[{}] stands for a task without any"
        )
    config = found.env_config if env_config is None else env_config
    subject = Subject(found, env_class, config, tuple(extras_list), seed, fuzz)
    return asyncio.run(_examine(subject))


def _examples(env_class: type[TextEnv]) -> Sequence[Mapping[str, Any]]:
    try:
        return tuple(getattr(env_class, "examples", lambda: [{}])())
    except Exception as error:
        raise DataError(
            f"{env_class.__name__}.examples() raised {error!r}; it is a classmethod that returns "
            "the extras of a few episodes"
        ) from error


async def _examine(subject: Subject) -> ContractReport:
    checks: list[Check] = []
    for name, examine, next_move in _CHECKS:
        try:
            checks.append(Check(name, True, await examine(subject)))
        except NotAsked as reason:
            checks.append(Check(name, True, str(reason), asked=False))
        except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
            said = str(error) if isinstance(error, ContractError) else f"raised {error!r}"
            checks.append(Check(name, False, f"{said}. {next_move}"))
        if name == "builds" and not checks[-1].ok:
            break
    return ContractReport(subject.spec.name, tuple(checks))


_CHECKS: tuple[tuple[str, Callable[[Subject], Awaitable[str]], str], ...] = (
    (
        "extras are JSON",
        asks.plain_extras,
        "Use strings, numbers, booleans, null, lists and objects with string keys only.",
    ),
    (
        "spec pickles",
        asks.spec_pickles,
        "Define the class at the top level of an importable module.",
    ),
    (
        "builds",
        asks.builds,
        "The constructor is called as Class(env_config=..., extras=...) and copies its extras. One "
        "that needs extras has examples() with those of a few tasks, or is checked with --items.",
    ),
    (
        "opens",
        asks.opens,
        "init(prompt) returns (messages, metadata): messages with role and content, plain JSON.",
    ),
    (
        "steps",
        asks.steps,
        "step(action) returns a StepOutput: observations, reward, done, metadata, plain JSON.",
    ),
    (
        "rewards lie in [0, 1]",
        asks.rewards,
        "Share the reward of an episode out over its steps; a whole success is 1.",
    ),
    (
        "repeats by seed",
        asks.repeats,
        "Draw all luck from random.Random(extras['seed']), and share no state between episodes.",
    ),
    (
        "ends within max_turns",
        asks.ends,
        "Count self.turns in step(); TextEnv.reply() then ends the episode at extras['max_turns'].",
    ),
    (
        "survives any action",
        asks.survives,
        "step() answers a clumsy move with an observation; it never raises for what a model wrote.",
    ),
    ("closes twice", asks.closes, "close() must be harmless before init() and when called again."),
    ("metrics are numbers", asks.measures, "get_metrics() returns finite numbers by name."),
    (
        "tells category and scope",
        asks.names_tasks,
        'category(task) and scope(task) are classmethods that return a text, "" for none.',
    ),
    (
        "gold solutions win",
        asks.gold_wins,
        "gold_actions(extras) must solve the task, or the reward of the last step is wrong.",
    ),
)

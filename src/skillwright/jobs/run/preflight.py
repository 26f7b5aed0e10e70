"""Checks before a run: its environment, its models, and this machine."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from skillwright.config.env import EnvSection
from skillwright.config.readers import ignored_variables
from skillwright.config.run import RunConfig
from skillwright.core import (
    ChatModel,
    ConfigError,
    Message,
    Purpose,
    Sampling,
    SkillwrightError,
    Task,
)
from skillwright.core.concurrency import together
from skillwright.core.waits import waiting
from skillwright.datasets.clusters import clusters_of
from skillwright.envs import TextEnv, specs
from skillwright.envs.drive import native_tools
from skillwright.jobs.run.bank_source import check_bank
from skillwright.jobs.run.bench import Sizes, make_env
from skillwright.jobs.run.resources import MakeModel
from skillwright.jobs.run.tasks import make_splits, side_models, tasks_to_look_at
from skillwright.models import EndpointFault, HttpClient, ModelConfig, make_model
from skillwright.rollout.episode import why_no_tools
from skillwright.runs import RunFolder
from skillwright.version import __version__

_QUESTION: Message = {"role": "user", "content": "Answer with the single word: ready"}
_ANSWER_TOKENS = 256  # a reasoning model needs room before it says one word
_ATTEMPTS = 2
_TOO_MANY = 429

Tools = Sequence[dict[str, Any]]
"""Native tools, each as a JSON schema."""


class Health(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    """Something is missing that only some runs need."""
    BAD = "bad"
    """A run would stop here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    health: Health
    detail: str


class Found(NamedTuple):
    """The sizes of the splits, the native tools of the agent, and the clusters of val tasks."""

    sizes: Sizes
    tools: tuple[dict[str, Any], ...] = ()
    clusters: Mapping[str, str] = MappingProxyType({})


def look_at_environment(config: RunConfig) -> Found:
    """Build the environment of a run once, and count the tasks of its splits."""
    for path in config.rollout.reuse:
        RunFolder.look(Path(path))
    splits = make_splits(config)
    with closing(build_first(config.env, tasks_to_look_at(config.env, splits)[0])) as env:
        tools = tuple(native_tools(env))
    if tools:
        refuse_without_tools(config.models.target, config.env.name)
    check_bank(config)
    sizes = Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test))
    return Found(sizes, tools, clusters_of(splits.val.tasks))


def users_of(env: EnvSection) -> dict[str, ModelConfig]:
    """Return the models of a simulated user and a judge, by role."""
    words = {"user": "simulated user"}
    return {words.get(role, role): llm for role, llm in side_models(env).items()}


def refuse_without_tools(target: ModelConfig, env: str) -> None:
    """Refuse a target that cannot call tools in an environment with native tools."""
    if not target.calls_tools:
        raise ConfigError(f"models.target is {target.backend!r}: {why_no_tools(env)}")


def build_first(env: EnvSection, task: Task) -> TextEnv:
    """Build the first environment of a run; any fault is reported as one of the settings."""
    build = make_env(env)
    try:
        with waiting(f"starting environment {env.name}"):
            return build(task)
    except SkillwrightError:
        raise
    except Exception as error:
        given = ", ".join(sorted(task.extras)) or "no extras"
        raise ConfigError(
            f"environment {env.name!r} cannot be built for task {task.id!r}: "
            f"{type(error).__name__}: {error}. It was given {given} as extras; its settings are "
            "in env.config."
        ) from error


async def ask_if_ready(
    llm: ModelConfig, client: HttpClient, make: MakeModel = make_model, *, tools: Tools = ()
) -> str:
    """Ask a model whether it answers; a scripted model always does.

    A rate limit shows that the endpoint exists, so it is retried as often as in a run.
    """
    if llm.is_scripted:
        make(llm, client)
        return llm.model
    attempts = getattr(llm, "max_attempts", 0)
    impatient = llm.model_copy(update={"max_attempts": _ATTEMPTS}) if attempts > _ATTEMPTS else llm
    try:
        return await _ask(llm, make(impatient, client), tools)
    except EndpointFault as fault:
        if fault.status != _TOO_MANY or impatient is llm:
            raise
    return await _ask(llm, make(llm, client), tools)


async def ask_models(
    llms: Mapping[str, ModelConfig], env: EnvSection | None = None, tools: Tools = ()
) -> None:
    """Ask the models of all roles whether they answer, each model once.

    Args:
        llms: Models by role.
        env: An environment whose simulated user and judge are asked too.
        tools: The native tools that the target is asked with.

    Raises:
        ModelError: A model does not answer, or refuses the key.
    """
    everyone = {**llms, **(users_of(env) if env else {})}
    async with HttpClient() as client:
        await together(_question(client, roles, everyone, tools) for roles in _by_model(everyone))


async def examine_models(
    llms: Mapping[str, ModelConfig], env: EnvSection, tools: Tools = ()
) -> list[Finding]:
    """Ask as `ask_models` does, and report each model by its roles."""
    everyone = dict(llms)
    with suppress(SkillwrightError):  # wrong settings, which the check of the tasks reports
        everyone |= users_of(env)
    async with HttpClient() as client:
        return await together(
            finding(" and ".join(roles), _question(client, roles, everyone, tools))
            for roles in _by_model(everyone)
        )


async def finding(name: str, check: Awaitable[str]) -> Finding:
    """Await a check, and report its line, or the error that it raised."""
    try:
        return Finding(name, Health.OK, await check)
    except SkillwrightError as error:
        return Finding(name, Health.BAD, str(error))


def _by_model(llms: Mapping[str, ModelConfig]) -> list[list[str]]:
    """Group roles by model: several roles of one model are one question."""
    # Compared as settings: what is written of them leaves out the key, which may differ.
    groups: list[tuple[ModelConfig, list[str]]] = []
    for role, llm in llms.items():
        same = next((roles for one, roles in groups if one == llm), None)
        if same is None:
            groups.append((llm, [role]))
        else:
            same.append(role)
    return [roles for _, roles in groups]


async def _question(
    client: HttpClient, roles: Sequence[str], llms: Mapping[str, ModelConfig], tools: Tools
) -> str:
    llm = llms[roles[0]]
    name = await ask_if_ready(llm, client, tools=tools if "target" in roles else ())
    return f"{llm.backend}: {name} answers"


async def _ask(llm: ModelConfig, model: ChatModel, tools: Tools) -> str:
    bound = min(_ANSWER_TOKENS, getattr(llm, "max_tokens", None) or _ANSWER_TOKENS)
    place = f" at {llm.address}" if llm.address else ""
    asked = f"asking {llm.backend} {llm.model}{place} whether it answers"
    with waiting(asked, "the run begins"):
        answer = await model.complete(
            [_QUESTION], tools=tools, sampling=Sampling(max_tokens=bound), purpose=Purpose.CHECK
        )
    return answer.model or llm.model


_MIN_FREE_GB = 1.0
_EXTRAS = {"train": ("torch", "transformers", "peft"), "local": ("xllamacpp",)}
_FOR = {"train": "weights", "local": "models on this machine"}


def examine_machine(root: Path) -> list[Finding]:
    """Look at Python, the disk, extras and environments; ``root`` is the folder that holds runs."""
    findings = [_python(), _disk(root), *_extras(), *_environments(), _official_games()]
    return findings + [
        Finding("environment variable", Health.NOTE, f"{name} has no effect here: {why}")
        for name, why in ignored_variables().items()
    ]


def _python() -> Finding:
    found = f"skillwright {__version__}, Python {platform.python_version()}, {platform.system()}"
    return Finding("python", Health.OK, found)


def _disk(root: Path) -> Finding:
    near = root.resolve()
    while not near.exists():
        near = near.parent
    free_gb = shutil.disk_usage(near).free / 1e9
    if not os.access(near, os.W_OK):
        return Finding("disk", Health.BAD, f"{str(near)!r} cannot be written; choose run.root")
    detail = f"{free_gb:.0f} GB free at {str(near)!r}"
    if free_gb < _MIN_FREE_GB:
        return Finding("disk", Health.BAD, f"{detail}; make room, or choose another run.root")
    return Finding("disk", Health.OK, detail)


def _extras() -> list[Finding]:
    findings = []
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        if missing:
            detail = (
                f"no {', '.join(missing)}; for {_FOR[extra]}: pip install 'skillwright[{extra}]'"
            )
            findings.append(Finding(f"extra {extra}", Health.NOTE, detail))
        else:
            findings.append(Finding(f"extra {extra}", Health.OK, ", ".join(modules)))
    return findings


def _environments() -> list[Finding]:
    findings = []
    for name, found in specs().items():
        try:
            found.load()
        except SkillwrightError as error:
            findings.append(Finding(f"env {name}", Health.BAD, str(error)))
        else:
            findings.append(Finding(f"env {name}", Health.OK, found.entry_point))
    return findings


def _official_games() -> Finding:
    root = os.environ.get("ALFWORLD_DATA")
    if not root:
        detail = "ALFWORLD_DATA is not set; generated houses are used unless it is"
        return Finding("ALFWorld games", Health.NOTE, detail)
    if not Path(root).is_dir():
        return Finding("ALFWorld games", Health.BAD, f"ALFWORLD_DATA names no folder: {root!r}")
    return Finding("ALFWorld games", Health.OK, root)

"""What can be known to be wrong before a run begins, and whether this machine is ready."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from skillwright.config.env import EnvSection
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
from skillwright.core.protocols import together
from skillwright.core.waits import waiting
from skillwright.envs import TextEnv, specs
from skillwright.envs.drive import native_tools
from skillwright.jobs.run.bank_source import check_bank, refuse_bank
from skillwright.jobs.run.bench import Sizes
from skillwright.jobs.run.money import refuse_unpriced
from skillwright.jobs.run.opened import MakeModel, make_env
from skillwright.jobs.run.tasks import (
    is_adapter,
    make_splits,
    refuse_unasked_data,
    side_models,
    tasks_to_look_at,
)
from skillwright.jobs.text.adapters.bench import check_adapter
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.wiring import read_initial_skill, refuse_hopeless_gate
from skillwright.models import (
    EndpointConfig,
    EndpointFault,
    HttpClient,
    LocalConfig,
    ModelConfig,
    PythonConfig,
    ScriptedConfig,
    is_scripted_model,
    make_model,
)
from skillwright.models.config import takes_seeds
from skillwright.models.environment import ignored_variables
from skillwright.plugins.skillopt.parity_report import say_mode
from skillwright.plugins.trackers.trackers import refuse_missing_trackers
from skillwright.rollout.episode import why_no_tools
from skillwright.runs import RunFolder
from skillwright.version import __version__

# What can be known to be wrong before a run begins, found before anything is written.


_QUESTION: Message = {"role": "user", "content": "Answer with the single word: ready"}
_ANSWER_TOKENS = 256  # a reasoning model needs room before it says one word
_ATTEMPTS = 2
_TOO_MANY = 429


async def preflight(config: RunConfig, plan: EvalPlan | None = None) -> None:
    """Check tasks, environment and endpoints; one small question goes to each endpoint.

    Args:
        config: What will be run.
        plan: What an evaluation evaluates; ``None`` for training, which has two models.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelRefused: An endpoint refuses the key or the model.
        ModelError: An endpoint does not answer.
    """
    refuse_missing_trackers(config.run.trackers)
    refuse_unpriced(config, trains=plan is None)
    found = await look_at_tasks(config, trains=plan is None)
    if plan is not None and getattr(found.sizes, plan.split) == 0:
        there = ", ".join(f"{count} {name}" for name, count in found.sizes._asdict().items())
        raise ConfigError(f"there are no {plan.split} tasks to evaluate ({there})")
    llms = [*([config.models.optimizer] if plan is None else ()), *users_of(config.env).values()]
    # Two roles of one model are one question; the target's has its tools beside it.
    target = config.models.target
    others = {llm.model_dump_json(): llm for llm in llms if llm != target}
    async with HttpClient() as client:
        asked = [ask_if_ready(target, client, tools=found.tools)]
        await together([*asked, *(ask_if_ready(llm, client) for llm in others.values())])


class Found(NamedTuple):
    """What a run plays: how many tasks, and the tools that the agent is offered natively."""

    sizes: Sizes
    tools: tuple[dict[str, Any], ...] = ()


async def look_at_tasks(config: RunConfig, *, trains: bool = True) -> Found:
    """Find what a run plays, and build it once: an environment, or the adapter with its splits.

    Nothing is played, and nothing is written where the run will be.
    """
    for path in config.rollout.reuse:
        RunFolder.look(Path(path))
    if is_adapter(config.env):
        refuse_bank(config)
        with waiting(f"setting up adapter {config.env.name}"):
            found = Found(await check_adapter(config))
    else:
        found = _look_at_environment(config)
    if trains and found.sizes.val is not None:
        refuse_hopeless_gate(config, found.sizes.train, found.sizes.val)
    return found


def _look_at_environment(config: RunConfig) -> Found:
    splits = make_splits(config)
    with closing(build_first(config.env, tasks_to_look_at(config.env, splits)[0])) as env:
        tools = tuple(native_tools(env))
    if tools:
        refuse_without_tools(config.models.target, config.env.name)
    check_bank(config)
    return Found(Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test)), tools)


def users_of(env: EnvSection) -> dict[str, ModelConfig]:
    """Return the models behind simulated users and a judge by their role, where there are any."""
    words = {"user": "simulated user"}
    return {words.get(role, role): llm for role, llm in side_models(env).items()}


def refuse_without_tools(target: ModelConfig, env: str) -> None:
    """Refuse a program at a command line where tools are called natively."""
    if not isinstance(target, EndpointConfig | ScriptedConfig | PythonConfig) or (
        getattr(target, "transport", "") == "cli"
    ):
        raise ConfigError(f"models.target is {target.backend!r}: {why_no_tools(env)}")


def build_first(env: EnvSection, task: Task) -> TextEnv:
    """Build the first environment of a run, before which any fault is one of the settings."""
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
    llm: ModelConfig,
    client: HttpClient,
    make: MakeModel = make_model,
    *,
    tools: Sequence[dict[str, Any]] = (),
) -> str:
    """Ask an endpoint whether it answers; a scripted model always does.

    A rate limit is waited for as in a run, as it says that the endpoint is there.
    """
    if isinstance(llm, ScriptedConfig | PythonConfig):
        model = make(llm, client)
        return llm.model if is_scripted_model(llm) else await _ask(llm, model, tools)
    impatient = llm.model_copy(update={"max_attempts": min(_ATTEMPTS, llm.max_attempts)})
    try:
        return await _ask(llm, make(impatient, client), tools)
    except EndpointFault as fault:
        if fault.status != _TOO_MANY or llm.max_attempts <= _ATTEMPTS:
            raise
    return await _ask(llm, make(llm, client), tools)


async def _ask(llm: ModelConfig, model: ChatModel, tools: Sequence[dict[str, Any]]) -> str:
    bound = min(_ANSWER_TOKENS, getattr(llm, "max_tokens", None) or _ANSWER_TOKENS)
    # A local model has no address yet: its server is started by this question.
    base = None if isinstance(llm, LocalConfig) else getattr(llm, "base_url", None)
    place = f" at {base}" if base else ""
    asked = f"asking {llm.backend} {llm.model}{place} whether it answers"
    with waiting(asked, "the run begins"):
        answer = await model.complete(
            [_QUESTION], tools=tools, sampling=Sampling(max_tokens=bound), purpose=Purpose.CHECK
        )
    return answer.model or llm.model


# Is this machine ready: each thing that could stop a run, and what to do about it.


_MIN_FREE_GB = 1.0
_EXTRAS = {"train": ("torch", "transformers", "peft"), "local": ("xllamacpp",)}
_FOR = {"train": "weights", "local": "models on this machine"}


class Health(StrEnum):
    """How a finding is to be read."""

    OK = "ok"
    """Nothing to do."""
    NOTE = "note"
    """Something is absent that not every run needs."""
    BAD = "bad"
    """A run would stop here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    health: Health
    detail: str


async def examine(root: Path, config: RunConfig | None = None) -> list[Finding]:
    """Look at the machine, and where a configuration is given at all that it names.

    Args:
        root: The folder that holds runs.
        config: What would be run; each endpoint in it is asked one small question.
    """
    findings = [_python(), _disk(root), *_extras(), *_environments(), _official_games()]
    findings += [
        Finding("environment variable", Health.NOTE, f"{name} has no effect here: {why}")
        for name, why in ignored_variables(os.environ).items()
    ]
    if config is not None:
        if config.run.parity:
            findings.append(Finding("mode", Health.OK, say_mode(config)[0]))
        findings += _trackers(config.run.trackers)
        files, offered = await _files(config)
        findings += files
        llms = {"target": config.models.target, "optimizer": config.models.optimizer}
        async with HttpClient() as client:
            asked = {**llms, **_users(config)}
            tools = {"target": offered}
            findings += await together(
                _llm(role, llm, client, tools.get(role, ())) for role, llm in asked.items()
            )
        findings += _seeds(llms)
    return findings


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


def _trackers(names: Sequence[str]) -> list[Finding]:
    """Look for the libraries of trackers; nothing to say where no tracker is named."""
    try:
        refuse_missing_trackers(names)
    except ConfigError as error:
        return [Finding("trackers", Health.BAD, str(error))]
    return [Finding("trackers", Health.OK, ", ".join(names))] if names else []


async def _files(config: RunConfig) -> tuple[list[Finding], tuple[dict[str, Any], ...]]:
    """Look at skill and tasks; also returns the tools that the agent will be offered."""
    try:
        read_initial_skill(config)
        refuse_unasked_data(config.env)
        sizes, tools = await look_at_tasks(config)
    except SkillwrightError as error:
        return [Finding("tasks and skill", Health.BAD, str(error))], ()
    # How many an adapter without a loader has, only its first rollout tells.
    counts = ("as many as it plays" if count is None else str(count) for count in sizes)
    named = (f"{count} {split}" for count, split in zip(counts, sizes._fields, strict=True))
    found = [Finding("tasks and skill", Health.OK, ", ".join(named))]
    if sizes.val:
        found.append(Finding("proof", Health.OK, config.power(sizes.train, sizes.val)))
    return found, tools


def _seeds(llms: Mapping[str, ModelConfig]) -> list[Finding]:
    """Say whose answers cannot be drawn again; the seeds of their calls are left out."""
    without = [f"{role} ({llm.backend})" for role, llm in llms.items() if not takes_seeds(llm)]
    if not without:
        return []
    detail = (
        f"{' and '.join(without)} take none: they are left out, and the same question may be "
        "answered differently next time"
    )
    return [Finding("seeds", Health.NOTE, detail)]


def _users(config: RunConfig) -> dict[str, ModelConfig]:
    try:
        return users_of(config.env)
    except SkillwrightError:  # wrong settings, of which `_files` tells
        return {}


async def _llm(
    role: str, llm: ModelConfig, client: HttpClient, tools: Sequence[dict[str, Any]]
) -> Finding:
    try:
        name = await ask_if_ready(llm, client, tools=tools)
    except SkillwrightError as error:
        return Finding(role, Health.BAD, str(error))
    return Finding(role, Health.OK, f"{llm.backend}: {name} answers")

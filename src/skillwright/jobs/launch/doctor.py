"""Is this machine ready: each thing that could stop a run, and what to do about it."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from skillwright import __version__
from skillwright.config.parity_report import say_mode
from skillwright.config.run import RunConfig
from skillwright.core import SkillwrightError
from skillwright.core.together import together
from skillwright.envs import specs
from skillwright.jobs.launch.preflight import ask_if_ready, look_at_tasks, users_of
from skillwright.jobs.parts.environment import refuse_unasked_data
from skillwright.jobs.train.wiring import read_initial_skill
from skillwright.models import HttpClient, ModelConfig
from skillwright.models.config import takes_seeds
from skillwright.models.environment import ignored_variables

_MIN_FREE_GB = 1.0
_EXTRAS = {"train": ("torch", "transformers", "peft")}


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
        files, offered = await _files(config)
        findings += files
        minds = {"target": config.models.target, "optimizer": config.models.optimizer}
        async with HttpClient() as client:
            asked = {**minds, **_users(config)}
            tools = {"target": offered}
            findings += await together(
                _mind(role, mind, client, tools.get(role, ())) for role, mind in asked.items()
            )
        findings += _seeds(minds)
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
            detail = f"no {', '.join(missing)}; for weights: pip install 'skillwright[{extra}]'"
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


def _seeds(minds: Mapping[str, ModelConfig]) -> list[Finding]:
    """Say whose answers cannot be drawn again; the seeds of their calls are left out."""
    without = [f"{role} ({mind.backend})" for role, mind in minds.items() if not takes_seeds(mind)]
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


async def _mind(
    role: str, mind: ModelConfig, client: HttpClient, tools: Sequence[dict[str, Any]]
) -> Finding:
    try:
        name = await ask_if_ready(mind, client, tools=tools)
    except SkillwrightError as error:
        return Finding(role, Health.BAD, str(error))
    return Finding(role, Health.OK, f"{mind.backend}: {name} answers")

"""Is this machine ready: each thing that could stop a run, and what to do about it."""

import importlib.util
import os
import platform
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from skillwright import __version__
from skillwright.core import SkillwrightError
from skillwright.core.together import together
from skillwright.envs import specs
from skillwright.jobs.config import RunConfig
from skillwright.jobs.preflight import ask_if_ready
from skillwright.jobs.wiring import make_splits, read_initial_skill
from skillwright.models import HttpClient, ModelConfig

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
    if config is not None:
        findings += _files(config)
        minds = {"target": config.models.target, "optimizer": config.models.optimizer}
        async with HttpClient() as client:
            findings += await together(_mind(role, minds[role], client) for role in minds)
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
    for name, spec in specs().items():
        try:
            spec.load()
        except SkillwrightError as error:
            findings.append(Finding(f"env {name}", Health.BAD, str(error)))
        else:
            findings.append(Finding(f"env {name}", Health.OK, spec.entry_point))
    return findings


def _official_games() -> Finding:
    root = os.environ.get("ALFWORLD_DATA")
    if not root:
        detail = "ALFWORLD_DATA is not set; generated houses are used unless it is"
        return Finding("ALFWorld games", Health.NOTE, detail)
    if not Path(root).is_dir():
        return Finding("ALFWorld games", Health.BAD, f"ALFWORLD_DATA names no folder: {root!r}")
    return Finding("ALFWorld games", Health.OK, root)


def _files(config: RunConfig) -> list[Finding]:
    try:
        read_initial_skill(config)
        splits = make_splits(config)
    except SkillwrightError as error:
        return [Finding("tasks and skill", Health.BAD, str(error))]
    sizes = f"{len(splits.train.tasks)} train, {len(splits.val.tasks)} val, {len(splits.test)} test"
    return [Finding("tasks and skill", Health.OK, sizes)]


async def _mind(role: str, mind: ModelConfig, client: HttpClient) -> Finding:
    try:
        name = await ask_if_ready(mind, client)
    except SkillwrightError as error:
        return Finding(role, Health.BAD, str(error))
    return Finding(role, Health.OK, f"{mind.backend}: {name} answers")

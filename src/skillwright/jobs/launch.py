"""Begin a run, find one again, and play it: what the command line and notebooks call."""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Self

from skillwright.core import ConfigError, RunError, did_you_mean
from skillwright.core.jsonio import dumps
from skillwright.jobs.config import RunConfig
from skillwright.jobs.config_load import dump_config, load_config
from skillwright.jobs.evaluate import EvalPlan, EvalReport, evaluate
from skillwright.jobs.progress import Watcher
from skillwright.jobs.train import TrainReport, train
from skillwright.jobs.wiring import MakeModel, assemble, assemble_arena
from skillwright.models import OpenAIChatConfig, ScriptedConfig, make_model
from skillwright.runs import Redactor, RunFolder, RunStore, list_runs, provenance, unused_name
from skillwright.runs.folder import LOCK_NAME
from skillwright.runs.secrets import REDACTED

MADE = "made"
"""The first event of a run: which job it is, and what it was made by."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that this process works on, until it is closed.

    Attributes:
        config: Its configuration.
        folder: Its folder, locked.
        store: Its store.
        plan: What it evaluates; ``None`` for a training run.
    """

    config: RunConfig
    folder: RunFolder
    store: RunStore
    plan: EvalPlan | None = None

    @property
    def go_on(self) -> str:
        """The command that goes on with it."""
        return f"skillwright resume {shlex.quote(str(self.folder.path))}"

    def close(self) -> None:
        """Close the store and let others work on the run."""
        self.store.close()
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def start_run(config: RunConfig, skill: str, plan: EvalPlan | None = None) -> Run:
    """Make a run's folder and write down what it is for. Check the configuration before.

    Args:
        config: What will be run.
        skill: The text that training begins with, or that is evaluated.
        plan: What an evaluation evaluates; ``None`` for training.

    Returns:
        The run. It has the configuration's name, with a number behind it where that is taken.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
    """
    root, name = Path(config.run.root), config.run.name
    free = unused_name(root, name) if (root / name).exists() else name
    redactor = Redactor(known_secrets(config))
    folder = _make_folder(root, free, dump_config(config), redactor)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder.path, ignore_errors=True)
        undo.callback(folder.close)
        store = RunStore.open(folder.store_path, redactor=redactor)
        undo.callback(store.close)
        with store.transaction(durable=True):
            store.add_skill_version(skill, origin="initial_skill", step=0)
            store.append_event(MADE, _facts(plan) | {"provenance": provenance()})
        undo.pop_all()
    return Run(config, folder, store, plan)


def _make_folder(root: Path, name: str, config: str, redactor: Redactor) -> RunFolder:
    try:
        return RunFolder.create(root, name, config, redactor)
    except RunError as error:
        path = root / name
        if isinstance(error.__cause__, OSError) and _holds_nothing(path):
            shutil.rmtree(path, ignore_errors=True)
        raise


def _holds_nothing(path: Path) -> bool:
    return path.is_dir() and {item.name for item in path.iterdir()} <= {LOCK_NAME}


def open_run(run: str | Path, root: str | Path = "runs") -> Run:
    """Open a run to go on with it.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.

    Raises:
        RunError: There is no such run, another process works on it, or its store is missing or
            damaged.
        ConfigError: Its configuration cannot be read, or lacks a secret that it began with.
    """
    path = find_run(run, root)
    config = load_config(path / "config.yaml")
    _refuse_redacted(config.env.config, path)
    folder = RunFolder.open(path)
    try:
        # Opened to look at first: a store that is not there must not be made here.
        with RunStore.open(folder.store_path, read_only=True) as store:
            plan = read_plan(store, path)
        store = RunStore.open(folder.store_path, redactor=Redactor(known_secrets(config)))
    except BaseException:
        folder.close()
        raise
    return Run(config, folder, store, plan)


def _refuse_redacted(settings: dict[str, Any], path: Path) -> None:
    """A secret was kept out of the folder; what stands in its place must not be used as one."""
    hidden = [name for name, value in settings.items() if REDACTED in dumps(value)]
    if hidden:
        raise ConfigError(
            f"{str(path / 'config.yaml')!r} holds {REDACTED!r} in place of env.config.{hidden[0]}: "
            "secrets are not stored with a run. Put the value back there, then resume."
        )


def find_run(run: str | Path, root: str | Path = "runs") -> Path:
    """Return the folder of a run that is named by path or by name.

    Raises:
        RunError: There is none; the message names the nearest.
    """
    for path in (Path(run), Path(root) / run):
        if (path / "config.yaml").is_file():
            return path
    names = [folder.name for folder in list_runs(Path(root))]
    raise RunError(f"no run {str(run)!r} here or in {str(root)!r}. {did_you_mean(str(run), names)}")


def read_plan(store: RunStore, path: Path) -> EvalPlan | None:
    """Return what a run evaluates; ``None`` for a training run.

    Raises:
        RunError: It was killed before it began.
    """
    made = store.events(MADE)
    if not made:
        raise RunError(
            f"run {str(path)!r} never began, so there is nothing to go on with. Remove its folder "
            "and start it anew."
        )
    facts = made[0].payload
    if facts["job"] != "eval":
        return None
    return EvalPlan(facts["split"], facts["trials"], facts.get("min_pass", 0.0))


def _facts(plan: EvalPlan | None) -> dict[str, Any]:
    if plan is None:
        return {"job": "train"}
    return {"job": "eval", **asdict(plan)}


async def run_training(run: Run, watcher: Watcher, make: MakeModel = make_model) -> TrainReport:
    """Train, from the beginning or from where the run was left; `train` says what is raised."""
    async with assemble(run.config, run.store, watcher, make) as parts:
        return await train(parts, run.folder)


async def run_evaluation(
    run: Run, plan: EvalPlan, watcher: Watcher, make: MakeModel = make_model
) -> EvalReport:
    """Evaluate the run's skill; `evaluate` says what is raised."""
    async with assemble_arena(run.config, run.store, watcher, make) as parts:
        return await evaluate(parts, run.folder, plan)


@contextmanager
def demo_file() -> Iterator[Path]:
    """Give the configuration of the demo as a file."""
    with as_file(files("skillwright.jobs").joinpath("demo.yaml")) as path:
        yield path


def has_scripted_minds(config: RunConfig, plan: EvalPlan | None = None) -> bool:
    """Tell whether a scripted mind takes part; whoever shows the run's results must say so.

    Args:
        config: The run's configuration.
        plan: What it evaluates, without an optimiser; ``None`` for training.
    """
    minds = [config.models.target] if plan else [config.models.target, config.models.optimizer]
    return any(isinstance(mind, ScriptedConfig) for mind in minds)


def known_secrets(config: RunConfig) -> list[str]:
    """Return the API keys that a run's models use, so that nothing it writes holds one."""
    keys = []
    for mind in (config.models.target, config.models.optimizer):
        if isinstance(mind, OpenAIChatConfig):
            given = mind.api_key.get_secret_value() if mind.api_key else ""
            keys += [given, os.environ.get(mind.api_key_env, "")]
    return [key for key in keys if key]

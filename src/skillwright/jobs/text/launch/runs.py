"""Begin a run, find one again, and play it: what the command line and notebooks call."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, Literal, Self

from skillwright.config.env import EnvSection
from skillwright.config.load import dump_config, load_config
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, EpisodeResult, RunError, did_you_mean
from skillwright.core.jsonio import decode, dumps
from skillwright.core.secrets import REDACTED, environment_secrets, secrets_in
from skillwright.core.sqlite_file import log_of, log_size
from skillwright.jobs.run.bank_source import keep_bank
from skillwright.jobs.run.opened import MakeModel
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.resuming import (
    SESSION,
    SESSION_ENDED,
    refuse_all_but_budget,
    refuse_other_settings,
    settings_facts,
)
from skillwright.jobs.run.tasks import is_adapter, refuse_unasked_data, side_models
from skillwright.jobs.run.tracking import Measures, Watcher, tracked
from skillwright.jobs.text.evaluate import EVALUATED, EvalPlan, EvalReport, evaluate
from skillwright.jobs.text.forking import RECORDED
from skillwright.jobs.text.history import past_events
from skillwright.jobs.text.state import restore
from skillwright.jobs.text.train import TrainReport, finished_report, prove, train, why_not_again
from skillwright.jobs.text.wiring import assemble, assemble_session
from skillwright.models import (
    EndpointConfig,
    ExecConfig,
    ModelConfig,
    PythonConfig,
    is_scripted_model,
    make_model,
)
from skillwright.plugins.skillopt.parity_report import mode_facts
from skillwright.runs import Redactor, RunFolder, RunStore, list_runs, provenance, unused_name
from skillwright.runs.folder import CONFIG_NAME, LOCK_NAME, STORE_NAME

# The run that began last, so that nobody has to type its name.


LATEST: Final = "latest"
"""Names the run that began last, wherever a run is named and none is called so."""


def latest_run(root: Path) -> Path:
    """Return the folder of the run below a folder that began last; a study's runs count too."""
    runs = sorted(_runs(root), key=_began)
    if not runs:
        raise RunError(
            f"there is no run in {str(root)!r}, so {LATEST!r} names none. Name the folder that "
            "holds your runs with --root, or make a run with:  skillwright demo"
        )
    return runs[-1].path


def has_runs(root: Path) -> bool:
    """Tell whether there is any run below a folder."""
    return next(_runs(root), None) is not None


def _runs(root: Path) -> Iterator[RunFolder]:
    yield from list_runs(root)
    if not root.is_dir():
        return
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        yield from list_runs(folder)


def _began(run: RunFolder) -> tuple[float, str]:
    """Return when a run began, and its name, for runs of the same moment."""
    try:
        with RunStore.open(run.store_path, read_only=True) as store:
            began = store.first_event_time()
    except RunError:  # it cannot be read; whoever asks for the latest must hear of that
        began = None
    if began is None:
        began = (run.path / "config.yaml").stat().st_mtime
    return began, str(run.path)


MADE = "made"
"""The first event of a run: which job it is, and what it was made by."""
SERVE: Final = "serve"
"""The job of a run that holds the conversations of `skillwright serve`."""
STUDY_NAME = "study.yaml"
"""The file that makes a folder of runs a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run of any job that this process works on, until it is closed."""

    folder: RunFolder
    store: RunStore

    @property
    def resume_command(self) -> str:
        """The command that resumes it."""
        return f"skillwright resume {shlex.quote(str(self.folder.path))}"

    def close(self) -> None:
        """Close the store and let others work on the run."""
        self.store.close()
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(OpenRun):
    """A training or an evaluation that this process works on, until it is closed.

    Attributes:
        config: Its configuration.
        plan: What it evaluates; ``None`` for a training run.
    """

    config: RunConfig
    plan: EvalPlan | None = None


def start_run(
    config: RunConfig,
    skill: str,
    plan: EvalPlan | None = None,
    recorded: EpisodeResult | None = None,
) -> Run:
    """Make a run's folder and write down what it is for. Check the configuration before.

    Args:
        config: What will be run.
        skill: The text that training begins with, or that is evaluated.
        plan: What an evaluation evaluates; ``None`` for training.
        recorded: The episode that a fork continues; the run keeps a copy.

    Returns:
        The run. It has the configuration's name, with a number behind it where that is taken.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
        DataError: The environment that the configuration names is not found, or its data.
    """
    refuse_unasked_data(config.env)
    # One that imports from skillopt asks the run's models; any other asks its own.
    plays_itself = config.env.compat is None and is_adapter(config.env)

    def first(path: Path, store: RunStore) -> dict[str, Any]:
        store.add_skill_version(skill, origin="initial_skill", step=0)
        if recorded is not None:
            spec = replace(recorded.spec, phase=RECORDED, step=None)
            store.record_episode(replace(recorded, spec=spec), usage={})
        facts: dict[str, Any] = {"job": "eval", **asdict(plan)} if plan else {"job": "train"}
        return facts | mode_facts(config) | keep_bank(config, path) | {"adapter": plays_itself}

    folder, store = make_run(
        Path(config.run.root), config.run.name, dump_config(config), known_secrets(config), first
    )
    return Run(config=config, folder=folder, store=store, plan=plan)


def make_run(
    root: Path,
    name: str,
    config: str,
    secrets: Sequence[str],
    first: Callable[[Path, RunStore], dict[str, Any]],
) -> tuple[RunFolder, RunStore]:
    """Make the folder and the store of a run of any job, or leave nothing behind."""
    redactor = Redactor(secrets)
    free = unused_name(root, name) if (root / name).exists() else name
    folder = make_folder(root, free, config, redactor)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder.path, ignore_errors=True)
        undo.callback(folder.close)
        store = RunStore.open(folder.store_path, redactor=redactor)
        undo.callback(store.close)
        with store.transaction(durable=True):
            facts = first(folder.path, store) | {"provenance": provenance()}
            store.append_event(MADE, facts | settings_facts(folder.path))
        undo.pop_all()
    return folder, store


def make_folder(root: Path, name: str, config: str, redactor: Redactor) -> RunFolder:
    """Make the folder of a run, or leave nothing behind."""
    path = root / name
    try:
        return RunFolder.create(root, name, config, redactor)
    except BaseException as error:
        # Any other refusal is about a folder that is somebody else's.
        is_ours = not isinstance(error, RunError) or isinstance(error.__cause__, OSError)
        if is_ours and _holds_nothing(path):
            shutil.rmtree(path, ignore_errors=True)
        raise


def _holds_nothing(path: Path) -> bool:
    return path.is_dir() and {item.name for item in path.iterdir()} <= {LOCK_NAME}


def open_run(run: str | Path, root: str | Path = "runs", overrides: Sequence[str] = ()) -> Run:
    """Open a run to resume it.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.
        overrides: ``budget.usd=5`` and its like: what it may use up, in place of what it began
            with. Nothing else of a run can change.

    Raises:
        RunError: There is no such run, another process works on it, or its store is missing or
            damaged.
        ConfigError: Its configuration cannot be read, was edited, or lacks a secret that it began
            with.
    """
    path = find_run(run, root)
    refuse_all_but_budget(overrides)
    config = load_config(path / CONFIG_NAME, overrides)
    refuse_redacted(config.env.config, path)
    folder, store, plan = reopen(path, known_secrets(config))
    return Run(config=config, folder=folder, store=store, plan=plan)


def reopen(path: Path, secrets: Sequence[str]) -> tuple[RunFolder, RunStore, EvalPlan | None]:
    """Open the folder and the store of a run of any job; its settings must not have changed."""
    folder = RunFolder.open(path)
    try:
        # Opened to look at first: a store that is not there must not be made here.
        with RunStore.open(folder.store_path, read_only=True) as store:
            plan = read_plan(store, path)
            refuse_other_settings(path, store, MADE)
        return folder, RunStore.open(folder.store_path, redactor=Redactor(secrets)), plan
    except BaseException:
        folder.close()
        raise


def refuse_redacted(settings: dict[str, Any], path: Path) -> None:
    """Refuse settings from which a secret was kept out; its mark must not be used as one.

    Raises:
        ConfigError: There is such a mark.
    """
    hidden = [name for name, value in settings.items() if REDACTED in dumps(value)]
    if hidden:
        raise ConfigError(
            f"{str(path / CONFIG_NAME)!r} holds {REDACTED!r} in place of env.config.{hidden[0]}: "
            "secrets are not stored with a run. Put the value back there, then resume."
        )


def find_run(run: str | Path, root: str | Path = "runs") -> Path:
    """Return the folder of a run that is named by path or by name, or is the ``latest``.

    Raises:
        RunError: There is none; the message names the nearest.
    """
    for path in (Path(run), Path(root) / run):
        if (path / CONFIG_NAME).is_file():
            return path
    if str(run) == LATEST:
        return latest_run(Path(root))
    names = [folder.name for folder in list_runs(Path(root))]
    names += [found.parent.name for found in Path(root).glob(f"*/{STUDY_NAME}")]
    raise RunError(f"no run {str(run)!r} here or in {str(root)!r}. {did_you_mean(str(run), names)}")


def read_plan(store: RunStore, path: Path) -> EvalPlan | None:
    """Return what a run evaluates; ``None`` for a training run."""
    made = store.events(MADE)
    if not made:
        raise RunError(_without_beginning(path))
    facts = made[0].payload
    if facts["job"] != "eval":
        return None
    return decode(EvalPlan, facts)


def _without_beginning(path: Path) -> str:
    where, log = path / STORE_NAME, log_of(path / STORE_NAME).name
    if size := log_size(where):
        return (
            f"nothing can be read of run {str(path)!r}: {STORE_NAME!r} holds no event, and its log "
            f"{log!r} ({size:,} bytes) is damaged. Restore both from a copy; nothing was changed."
        )
    return (
        f"{str(where)!r} holds no event: the run was killed before it began, or it was copied "
        f"without {log!r}, which holds what was written last. Copy that file too; where there is "
        "none, start a new run."
    )


MakeReport = Callable[[Path], str]
"""Writes the report of the run in a folder, for its trackers."""


async def run_training(
    run: Run,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> TrainReport:
    """Train, from the beginning or from where the run was left; `train` says what is raised.

    A finished run returns its report; nobody is asked, and neither tasks nor models are needed.
    """
    finished = finished_report(run.config, run.store, run.folder)
    if finished is not None:
        return finished
    with session(run.store):
        async with (
            _tracked(run, callback, make_report) as seen,
            assemble(run.config, run.store, seen, make) as parts,
        ):
            return await train(parts, run.folder)


async def run_proof(
    run: Run,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> TrainReport:
    """Test once more what a finished training could not prove; `prove` says what is raised."""
    problem = why_not_again(restore(run.config, run.store))
    if problem:
        raise ConfigError(f"run {run.folder.name!r} has nothing to prove: {problem}")
    with session(run.store):
        async with (
            _tracked(run, callback, make_report) as seen,
            assemble(run.config, run.store, seen, make) as parts,
        ):
            return await prove(parts, run.folder)


async def run_evaluation(
    run: Run,
    plan: EvalPlan,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> EvalReport:
    """Evaluate the run's skill; `evaluate` says what is raised."""
    with session(run.store):
        async with (
            _tracked(run, callback, make_report) as seen,
            assemble_session(run.config, run.store, seen, make, plan.fork) as parts,
        ):
            return await evaluate(parts, run.folder, plan)


def _tracked(
    run: Run, callback: Callback, make_report: MakeReport | None
) -> AbstractAsyncContextManager[Watcher]:
    """Have the run's trackers follow a session, from what earlier sessions decided on."""
    played = len(run.store.events(EVALUATED))  # a resumed evaluation is scored again
    return tracked(
        run.config.run.trackers,
        run.store,
        lambda named: Measures(named, run.store, played),
        callback,
        secrets=lambda: known_secrets(run.config),
        past=lambda: () if run.plan else past_events(run.config, run.store),
        make_report=make_report,
    )


@contextmanager
def session(store: RunStore) -> Iterator[None]:
    """Write down when work on a run begins and ends, also where nothing was finished in it."""
    store.append_event(SESSION, {})
    try:
        yield
    finally:
        # Where even this cannot be written, what stopped the session is what is reported.
        with suppress(RunError):
            store.append_event(SESSION_ENDED, {})


@contextmanager
def demo_file(half: Literal["text", "weights"] = "text") -> Iterator[Path]:
    """Give the configuration of one half of the demo as a file."""
    name = {"text": "demo.yaml", "weights": "rl/demo-weights.yaml"}[half]
    with as_file(files("skillwright.jobs").joinpath(name)) as path:
        yield path


def has_scripted_models(config: RunConfig, store: RunStore, plan: EvalPlan | None = None) -> bool:
    """Tell whether a scripted model takes part; whoever shows the run's results must say so.

    Args:
        config: The run's configuration.
        store: Its store, which knows whether an adapter plays: that asks no target of ours.
        plan: What it evaluates, without an optimizer; ``None`` for training.
    """
    llms = [] if plan else [config.models.optimizer]
    if not any(event.payload.get("adapter", False) for event in store.events(MADE)):
        llms.append(config.models.target)
    return any(map(is_scripted_model, llms))


def known_secrets(config: RunConfig) -> list[str]:
    """Return the secrets of a run and of its process; nothing that it writes holds one."""
    llms = config.models
    return secrets_of(config.env, (llms.target, llms.optimizer, llms.teacher))


def secrets_of(env: EnvSection, llms: Sequence[ModelConfig | None]) -> list[str]:
    """Return the keys of an environment, of the models that it asks itself, and of models."""
    return [
        *filter(None, secrets_in(env.config)),
        *model_secrets((*llms, *side_models(env).values())),
    ]


def model_secrets(llms: Sequence[ModelConfig | None]) -> list[str]:
    """Return the keys of models, and the other secrets of the process's environment."""
    keys = environment_secrets()
    for llm in llms:
        if isinstance(llm, EndpointConfig | ExecConfig):
            given = llm.api_key.get_secret_value() if llm.api_key else ""
            keys += [given, os.environ.get(llm.api_key_env, "")]
        if isinstance(llm, PythonConfig):
            keys += secrets_in(llm.settings)
    return [key for key in keys if key]

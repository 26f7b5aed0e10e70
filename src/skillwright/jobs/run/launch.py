"""Begin a run of any job, find one again and open it; the secrets that no run stores."""

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, Literal, Self

from skillwright.config.env import EnvSection
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, RunError, SkillwrightError, did_you_mean
from skillwright.core.jsonio import dumps, read_text
from skillwright.core.secrets import REDACTED, environment_secrets, secrets_in
from skillwright.core.skill_file import read_skill_file
from skillwright.jobs.kinds import MADE, STUDY_NAME
from skillwright.jobs.listing import made_facts
from skillwright.jobs.run.resume import (
    SESSION,
    SESSION_ENDED,
    refuse_other_settings,
    settings_facts,
)
from skillwright.jobs.run.tasks import side_models
from skillwright.models import (
    ModelConfig,
)
from skillwright.runs import Redactor, RunFolder, RunStore, list_runs, provenance, unused_name
from skillwright.runs.folder import CONFIG_NAME, LOCK_NAME, STORE_NAME

LATEST: Final = "latest"
"""Names the run that began last, wherever a run is named and none is called so."""
MakeReport = Callable[[Path], str]
"""Writes the report of the run in a folder, for its trackers."""


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
        # Any other refusal concerns another program's folder.
        is_ours = not isinstance(error, RunError) or isinstance(error.__cause__, OSError)
        if is_ours and _holds_nothing(path):
            shutil.rmtree(path, ignore_errors=True)
        raise


def _holds_nothing(path: Path) -> bool:
    return path.is_dir() and {item.name for item in path.iterdir()} <= {LOCK_NAME}


def find_run(run: str | Path, root: str | Path = "runs") -> Path:
    """Return the folder of a run by path, by name, or of the ``latest``.

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


def latest_run(root: Path) -> Path:
    """Return the folder of the latest run below a folder, studies included."""
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
    """Return when a run began, and its path to order equal times."""
    try:
        with RunStore.open(run.store_path, read_only=True) as store:
            began = store.first_event_time()
    except RunError:  # it cannot be read; the caller that asks for the latest must learn that
        began = None
    if began is None:
        began = (run.path / "config.yaml").stat().st_mtime
    return began, str(run.path)


def refuse_unreadable(path: Path) -> None:
    """Refuse a run whose store is damaged or of another version, before its settings are read."""
    RunStore.open(path / STORE_NAME, read_only=True).close()


def reopen(path: Path, secrets: Sequence[str]) -> tuple[RunFolder, RunStore]:
    """Open the folder and the store of a run of any job; its settings must not have changed."""
    folder = RunFolder.open(path)
    try:
        # Opened to look at first: a store that is not there must not be made here.
        with RunStore.open(folder.store_path, read_only=True) as store:
            made_facts(store, path)
            refuse_other_settings(path, store, MADE)
        return folder, RunStore.open(folder.store_path, redactor=Redactor(secrets))
    except BaseException:
        folder.close()
        raise


def refuse_redacted(settings: dict[str, Any], path: Path) -> None:
    """Refuse settings in which a secret is redacted; the mark must not be used as one."""
    hidden = [name for name, value in settings.items() if REDACTED in dumps(value)]
    if hidden:
        raise ConfigError(
            f"{str(path / CONFIG_NAME)!r} holds {REDACTED!r} in place of env.config.{hidden[0]}: "
            "secrets are not stored with a run. Put the value back there, then resume."
        )


@contextmanager
def session(store: RunStore) -> Iterator[None]:
    """Record when work on a run begins and ends."""
    store.append_event(SESSION, {})
    why: dict[str, str] = {}
    try:
        yield
    except SkillwrightError as error:
        why = {"stopped": str(error)}
        raise
    finally:
        # If this cannot be written, the error that stopped the session is reported.
        with suppress(RunError):
            store.append_event(SESSION_ENDED, why)


@contextmanager
def demo_file(half: Literal["text", "weights"] = "text") -> Iterator[Path]:
    """Give the configuration of one half of the demo as a file."""
    name = {"text": "text/demo.yaml", "weights": "weights/demo-weights.yaml"}[half]
    with as_file(files("skillwright.jobs").joinpath(name)) as path:
        yield path


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
        keys += llm.secrets() if llm is not None else []
    return [key for key in keys if key]


KEPT_SKILL: Final = "initial_skill"
"""Folder in a run's folder with the SKILL.md that it began with, and the files that it links."""


def keep_skill_file(config: RunConfig, folder: Path) -> None:
    """Copy the SKILL.md that a run begins with into its folder, byte for byte."""
    if not config.skill.init or config.run.parity:
        return
    found = read_skill_file(config.skill.init)
    if not found.is_agent_skill:
        return
    for name in (found.path.name, *found.references):
        copy = folder / KEPT_SKILL / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((found.path.parent / name).read_bytes())


def read_initial_skill(config: RunConfig) -> str:
    """Return the initial skill; a blank ``skill.init`` is a blank skill.

    Of a SKILL.md it is the body, with its references if ``skill.train`` says so. Under parity the
    file is read byte for byte, as SkillOpt does.

    Raises:
        DataError: The file is missing, or is not UTF-8.
    """
    section = config.skill
    if not section.init or config.run.parity:
        return read_text(Path(section.init), "skill") if section.init else ""
    return read_skill_file(section.init).text(references=section.train != "body")

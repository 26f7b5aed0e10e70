"""Create, find and open runs of any job, and list the secrets that no run stores."""

import logging
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
from skillwright.core import ConfigError, Purpose, RunError, SkillwrightError, Usage, did_you_mean
from skillwright.core.chat import INTERRUPTED
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
from skillwright.models import ModelConfig
from skillwright.runs import Redactor, RunFolder, RunStore, list_runs, provenance, unused_name
from skillwright.runs.folder import CONFIG_NAME, LOCK_NAME, STORE_NAME

logger = logging.getLogger(__name__)

LATEST: Final = "latest"
"""Name of the latest run, in arguments that name a run."""
MakeReport = Callable[[Path], str]
"""Writes the report of the run in a folder and returns its path, for trackers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """An open run of any job, locked by this process."""

    folder: RunFolder
    store: RunStore

    @property
    def resume_command(self) -> str:
        """The command that resumes the run."""
        return f"skillwright resume {shlex.quote(str(self.folder.path))}"

    @property
    def short_name(self) -> str:
        """The run as commands take it: its name below ``runs``, else its path."""
        path = self.folder.path
        return path.name if path == Path("runs") / path.name else str(path)

    def close(self) -> None:
        """Close the store and release the lock."""
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
    """Create the folder and the store of a run of any job; remove both after an error."""
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
    """Create the folder of a run; remove it after an error."""
    path = root / name
    try:
        return RunFolder.create(root, name, config, redactor)
    except BaseException as error:
        # For any other error the folder belongs to another program.
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
    """Return a run's start time, and its path to break ties."""
    try:
        with RunStore.open(run.store_path, read_only=True) as store:
            began = store.first_event_time()
    except RunError:  # unreadable; if it is the latest run, the caller reports the error
        began = None
    if began is None:
        began = (run.path / "config.yaml").stat().st_mtime
    return began, str(run.path)


def refuse_unreadable(path: Path) -> None:
    """Raise an error for a damaged store or one of another version, before settings are read."""
    RunStore.open(path / STORE_NAME, read_only=True).close()


def reopen(path: Path, secrets: Sequence[str]) -> tuple[RunFolder, RunStore]:
    """Open folder and store of a run of any job; refuse changed settings and a missing store."""
    folder = RunFolder.open(path)
    try:
        # Opened for reading first, so that a missing store is not created.
        with RunStore.open(folder.store_path, read_only=True) as store:
            made_facts(store, path)
            refuse_other_settings(path, store, MADE)
        return folder, RunStore.open(folder.store_path, redactor=Redactor(secrets))
    except BaseException:
        folder.close()
        raise


def refuse_redacted(settings: dict[str, Any], path: Path) -> None:
    """Refuse settings with a redacted secret, which must not be used as the secret."""
    hidden = [name for name, value in settings.items() if REDACTED in dumps(value)]
    if hidden:
        raise ConfigError(
            f"{str(path / CONFIG_NAME)!r} holds {REDACTED!r} in place of env.config.{hidden[0]}: "
            "secrets are not stored with a run. Put the value back there, then resume."
        )


@contextmanager
def session(store: RunStore) -> Iterator[None]:
    """Record a session of a run: its start, its end, the error that ended it, cancelled calls."""
    store.append_event(SESSION, {})
    why: dict[str, str] = {}

    def record(purpose: Purpose, used: Usage) -> None:
        try:
            store.record_usage({purpose.value: used})
        except RunError:  # the error that ends the session is reported
            logger.warning("the usage of a cancelled call is not stored", exc_info=True)

    token = INTERRUPTED.set(record)
    try:
        yield
    except SkillwrightError as error:
        why = {"stopped": str(error)}
        raise
    finally:
        INTERRUPTED.reset(token)
        # If this cannot be written, the error that stopped the session is reported.
        with suppress(RunError):
            store.append_event(SESSION_ENDED, why)


@contextmanager
def demo_file(half: Literal["text", "weights"] = "text") -> Iterator[Path]:
    """Provide the configuration file of one half of the demo."""
    name = {"text": "text/demo.yaml", "weights": "weights/demo-weights.yaml"}[half]
    with as_file(files("skillwright.jobs").joinpath(name)) as path:
        yield path


def known_secrets(config: RunConfig) -> list[str]:
    """Return the secrets of a run and of its process, which are redacted in all its files."""
    llms = config.models
    return secrets_of(config.env, (llms.target, llms.optimizer, llms.teacher))


def secrets_of(env: EnvSection, llms: Sequence[ModelConfig | None]) -> list[str]:
    """Return the secrets of an environment, of its own models, and of models."""
    return [
        *filter(None, secrets_in(env.config)),
        *model_secrets((*llms, *side_models(env).values())),
    ]


def model_secrets(llms: Sequence[ModelConfig | None]) -> list[str]:
    """Return the API keys of models, and the secrets in environment variables."""
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
    for name in found.names:
        copy = folder / KEPT_SKILL / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((found.path.parent / name).read_bytes())


def read_initial_skill(config: RunConfig) -> str:
    """Return the text of the initial skill; ``""`` if ``skill.init`` is blank.

    Of a SKILL.md it is the body, with its references if ``skill.train`` says so. Under parity the
    file is read byte for byte, as SkillOpt does.

    Raises:
        DataError: The file is missing, or is not UTF-8.
    """
    init = config.skill.init
    if not init or config.run.parity:
        return read_text(Path(init), "skill") if init else ""
    return read_skill_file(init).text(references=config.skill.train != "body")

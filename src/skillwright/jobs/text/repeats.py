"""Repeated trainings of one skill folder: the error budget that their release tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillwright.config.load import look_at_config
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, SkillwrightError
from skillwright.core.skill_file import SKILL_FILE
from skillwright.evaluation import ErrorBudget
from skillwright.jobs.kinds import STUDY_NAME
from skillwright.jobs.listing import made_facts
from skillwright.jobs.run.launch import KEPT_SKILL
from skillwright.jobs.text.state import LEVEL, REPEAT, restore
from skillwright.runs import RunStore, list_runs
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

_SPENT: Final = (
    "the earlier trainings of {folder} have spent the error budget of their release tests; raise "
    "evaluation.alpha, or let new tasks decide and name another run.root"
)


def share_of_repeat(config: RunConfig, path: Path) -> dict[str, Any]:
    """Return what a training keeps of other ones that began with the same skill folder.

    It is asked for when a training begins, and when one that has tested nothing is continued.

    The first training has `evaluation.alpha` for itself; all later ones share it once more, so up
    to twice that share of all releases may be without a gain. Nothing tighter leaves the first one
    its alpha: where no edit helps, any further test adds to its chance of a false release. An
    unfinished training counts as one that tested: two that begin at once take no more than one
    after the other. The seeds of a study are no repetitions.

    Args:
        config: The configuration of the training.
        path: Its folder, which has the kept SKILL.md if it began with one.

    Raises:
        ConfigError: Earlier trainings left nothing to test with.
    """
    if not _keeps_folder(path) or (path.parent / STUDY_NAME).is_file():
        return {}
    earlier = sorted(_earlier(_folder_of(config), path))
    if not earlier:
        return {}
    shared = [one for one in earlier if not one.is_first]
    budget = ErrorBudget(
        config.evaluation.alpha,
        tuple(one.level for one in shared),
        tuple(one.released for one in shared),
    )
    if budget.level <= 0:
        raise ConfigError(_SPENT.format(folder=repr(str(_folder_of(config)))))
    return {LEVEL: budget.level, REPEAT: len(earlier)}


class _Training(NamedTuple):
    """An earlier training, in the order of trainings."""

    number: int
    name: str
    level: float
    released: bool
    is_first: bool


def _earlier(folder: Path, new: Path) -> Iterator[_Training]:
    for run in list_runs(new.parent):
        if run.path == new or not _keeps_folder(run.path):
            continue
        try:
            config = look_at_config(run.path / CONFIG_NAME, RunConfig)
            if _folder_of(config) == folder:
                found = _read(config, run.path)
                if found is not None:
                    yield found
        except ConfigError:  # it says nothing about its folder
            continue


def _read(config: RunConfig, path: Path) -> _Training | None:
    """Read a training; ``None`` for one that ended without a test, and for other jobs."""
    try:
        with RunStore.open(path / STORE_NAME, read_only=True) as store:
            if made_facts(store, path)["job"] != "train":
                return None
            state = restore(config, store)
    except SkillwrightError:  # it begins just now, or is damaged: it may have tested
        return _Training(0, path.name, 0.0, released=False, is_first=False)
    if state.final is None and state.finished:
        return None
    level, released = state.ledger.total, state.proven_version > 0
    return _Training(state.repeat, path.name, level, released, is_first=not state.repeat)


def _keeps_folder(run: Path) -> bool:
    return (run / KEPT_SKILL / SKILL_FILE).is_file()


def _folder_of(config: RunConfig) -> Path:
    path = Path(config.skill.init).resolve()
    return path.parent if path.name == SKILL_FILE else path

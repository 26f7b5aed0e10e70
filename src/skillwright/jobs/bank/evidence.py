"""The stored episodes of runs that a teacher may read, or that skills were learnt from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from skillwright.core import DataError, EpisodeResult
from skillwright.core.jsonio import read_text
from skillwright.jobs.launch.runs import find_run
from skillwright.jobs.parts.bank_use import may_be_studied
from skillwright.jobs.parts.bank_work import has_work, look_at_work
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class StudiedRun:
    """What a teacher may read of a run.

    Attributes:
        path: Its folder.
        episodes: Scored and failed episodes of tasks that may be studied.
        kept_out: Episodes of tasks that decide or are reported, by split.
        success_threshold: The reward from which the run calls an episode won.
    """

    path: Path
    episodes: tuple[EpisodeResult, ...]
    kept_out: Mapping[str, int]
    success_threshold: float


def study_run(run: str, root: Path | str = "runs") -> StudiedRun:
    """Read the episodes of a run that may be studied; it may be going on meanwhile.

    Raises:
        RunError: There is no such run, or its store cannot be read.
        DataError: It has no episode that may be studied.
    """
    path = find_run(run, root)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        summaries = store.episodes()
        open_ones = [one for one in summaries if may_be_studied(one)]
        kept_out = Counter(
            one.split if one.split != "train" else one.phase
            for one in summaries
            if not may_be_studied(one)
        )
        episodes = tuple(store.load_episode(one.id) for one in open_ones)
    if not episodes:
        others = ", ".join(f"{count} of {name or 'no split'}" for name, count in kept_out.items())
        raise DataError(
            f"run {str(path)!r} has no episode that a teacher may read"
            + (f"; it has {others}. " if others else ". ")
            + "A bank that learns from tasks that decide or are reported proves nothing: play "
            "train tasks (`skillwright eval CONFIG --split train`, or a training)"
        )
    return StudiedRun(path, episodes, dict(kept_out), threshold_of(path))


def threshold_of(path: Path) -> float:
    """Return the reward from which a run counts an episode as solved."""
    values = yaml.safe_load(read_text(path / CONFIG_NAME, "configuration")) or {}
    return float((values.get("env") or {}).get("success_threshold", 1.0))


def evidence_of(
    bank: Path, keys: Sequence[str], runs: Sequence[str] = (), root: Path | str = "runs"
) -> dict[str, EpisodeResult]:
    """Find the episodes that skills name as their evidence.

    Args:
        bank: The bank's file; what was played for it stands beside it.
        keys: Their keys.
        runs: Runs to look through as well.
        root: The folder that holds runs.

    Raises:
        RunError: There is no such run, or a store cannot be read.
    """
    found: dict[str, EpisodeResult] = {}
    if has_work(bank):
        with look_at_work(bank) as store:
            found |= _found(store, keys)
    for run in runs:
        with RunStore.open(find_run(run, root) / STORE_NAME, read_only=True) as store:
            found |= _found(store, keys)
    return found


def _found(store: RunStore, keys: Sequence[str]) -> dict[str, EpisodeResult]:
    episodes = {key: store.find_episode(key) for key in keys}
    return {key: one for key, one in episodes.items() if one is not None}

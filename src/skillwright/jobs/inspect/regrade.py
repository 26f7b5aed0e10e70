"""Score stored episodes again: what the agent did is done once more, in a fresh environment.

Nobody is asked: the agent's turns are in the store, and so is everything that the user said. The
new scores are an event of their own; what was scored before stays as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.config.load import load_config
from skillwright.config.run import RunConfig
from skillwright.core import EpisodeResult, RunError, Trajectory
from skillwright.core.jsonio import JsonRecord
from skillwright.envs import AboutEnv, specs
from skillwright.evaluation import Score
from skillwright.jobs.launch.runs import find_run
from skillwright.jobs.parts.resuming import REGRADED
from skillwright.jobs.parts.tasks import environment_named, environment_of
from skillwright.runs import RunFolder, RunStore


@dataclass(frozen=True, slots=True)
class Regraded(JsonRecord):
    """An episode whose score does not stand.

    Attributes:
        episode: Its number in the store.
        task_id: What was attempted.
        draw: Which attempt it was.
        before: The stored reward.
        after: The reward now; ``None`` where the episode cannot be played again.
        why: What is different.
    """

    episode: int
    task_id: str
    draw: int
    before: float
    after: float | None
    why: str


@dataclass(frozen=True, slots=True)
class RegradeReport(JsonRecord):
    """What became of a run's scores.

    Attributes:
        settings: What scores depend on now, as a JSON object.
        failures: Stored episodes without a reward, which stay without one.
        other_data: Scored episodes that were played over other data than there is now.
        unchanged: Episodes that were scored as before.
        changed: Those that were not.
        lost: Those that cannot be played again; in ``after`` they keep their stored reward.
        before: The stored score of all scored episodes.
        after: The score of the same episodes now.
    """

    settings: Mapping[str, Any]
    failures: int
    other_data: int
    unchanged: int
    changed: tuple[Regraded, ...]
    lost: tuple[Regraded, ...]
    before: Score
    after: Score

    @property
    def stands(self) -> bool:
        """Whether every stored score is what it would be now."""
        return not self.changed and not self.lost


def regrade(run: str | Path, root: str | Path = "runs") -> RegradeReport:
    """Score the episodes of a run again, and add the scores to its store.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.

    Raises:
        RunError: There is no such run, another process works on it, its store is damaged, or it
            is of another environment.
        DataError: The data is missing or damaged, or lacks a task.
    """
    path = find_run(run, root)
    config = load_config(path / "config.yaml")
    if not _replays(environment_of(config.env)):
        known = [repr(name) for name in specs() if _replays(environment_named(name))]
        raise RunError(
            f"run {str(path)!r} plays {config.env.name!r}; only runs on {' or '.join(known)} can "
            "be scored again, because all that was said is stored and decides what happens"
        )
    folder = RunFolder.open(path)
    try:
        # Opened to look at first: a store that is not there must not be made here.
        RunStore.open(folder.store_path, read_only=True).close()
        with RunStore.open(folder.store_path) as store:
            report = _regrade(config, store)
            with store.transaction(durable=True):
                store.append_event(REGRADED, report.to_dict())
            return report
    finally:
        folder.close()


def _replays(env: type[AboutEnv]) -> bool:
    return env.replay.__func__ is not AboutEnv.replay.__func__  # type: ignore[attr-defined]


def _regrade(config: RunConfig, store: RunStore) -> RegradeReport:
    environment = environment_of(config.env)
    failures, before, after = 0, list[EpisodeResult](), list[EpisodeResult]()
    changed, lost = list[Regraded](), list[Regraded]()
    for summary in store.episodes():
        if summary.reward is None:
            failures += 1
            continue
        episode = store.load_episode(summary.id)
        again = environment.replay(config.env.config, config.env.max_turns, episode)
        scored = replace(episode, trajectory=Trajectory(""))  # what was said is read one by one
        before.append(scored)
        after.append(scored if again.reward is None else replace(scored, reward=again.reward))
        if again.why:
            where = (summary.id, summary.task_id, summary.draw, summary.reward)
            found = Regraded(*where, after=again.reward, why=again.why)
            (lost if again.reward is None else changed).append(found)
    threshold = config.env.success_threshold
    settings = environment.identity(config.env.config)["comparability"]
    then = [one.spec.task.extras.get("data_sha256") for one in before]
    return RegradeReport(
        settings=settings,
        failures=failures,
        other_data=sum(checksum != settings["data"]["checksum"] for checksum in then),
        unchanged=len(before) - len(changed) - len(lost),
        changed=tuple(changed),
        lost=tuple(lost),
        before=Score.of(before, threshold),
        after=Score.of(after, threshold),
    )

"""Score stored episodes again: their stored turns are played in a fresh environment.

No model is called. The new scores are stored in an event; the old ones stay.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.core import EpisodeResult, Trajectory
from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation import Score
from skillwright.jobs.inspect.replay import NotReplayed, Stage
from skillwright.jobs.run import REGRADED, find_run
from skillwright.jobs.run.tasks import environment_of
from skillwright.rollout.loop_thread import LoopThread
from skillwright.rollout.playback import Difference
from skillwright.runs import RunFolder, RunStore


@dataclass(frozen=True, slots=True)
class Regraded(JsonRecord):
    """An episode whose score changed.

    Attributes:
        episode: Its number in the store.
        before: The stored reward.
        after: The reward now; ``None`` if the episode cannot be played again.
        why: The difference.
    """

    episode: int
    task_id: str
    draw: int
    before: float
    after: float | None
    why: str


@dataclass(frozen=True, slots=True)
class RegradeReport(JsonRecord):
    """The result of scoring a run again.

    Attributes:
        settings: The settings that scores depend on now, as a JSON object.
        failures: Stored episodes without a reward, which stay without one.
        other_data: Scored episodes of other data than there is now.
        unchanged: Number of episodes with the same score.
        changed: Episodes with another score.
        lost: Episodes that cannot be played again; ``after`` has their stored reward.
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
        """Whether every stored score is the same now."""
        return not self.changed and not self.lost


def regrade(run: str | Path, root: str | Path = "runs") -> RegradeReport:
    """Score the episodes of a run again, and add the scores to its store.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.

    Raises:
        RunError: There is no such run, another process works on it, its store is damaged, or an
            adapter played it.
        DataError: The data is missing or damaged, or lacks a task.
    """
    path = find_run(run, root)
    stage = Stage.of(path)
    folder = RunFolder.open(path)
    try:
        # Opened read-only first: a missing store must not be created here.
        RunStore.open(folder.store_path, read_only=True).close()
        with RunStore.open(folder.store_path) as store, closing(LoopThread()) as loop:
            report = _regrade(stage, store, loop)
            with store.transaction(durable=True):
                store.append_event(REGRADED, report.to_dict())
            return report
    finally:
        folder.close()


def _regrade(stage: Stage, store: RunStore, loop: LoopThread) -> RegradeReport:
    env = stage.config.env
    failures, before, after = 0, list[EpisodeResult](), list[EpisodeResult]()
    changed, lost = list[Regraded](), list[Regraded]()
    for summary in store.episodes():
        if summary.reward is None:
            failures += 1
            continue
        episode = store.load_episode(summary.id)
        reward, why = _scored(stage, loop, episode)
        scored = replace(episode, trajectory=Trajectory(""))  # trajectories are read one by one
        before.append(scored)
        after.append(scored if reward is None else replace(scored, reward=reward))
        if why:
            where = (summary.id, summary.task_id, summary.draw, summary.reward)
            found = Regraded(*where, after=reward, why=why)
            (lost if reward is None else changed).append(found)
    identity = environment_of(env).identity(env.config)
    settings = identity.get("comparability", identity)
    data = settings.get("data", {}).get("checksum")
    then = [one.spec.task.extras.get("data_sha256") for one in before]
    return RegradeReport(
        settings=settings,
        failures=failures,
        other_data=sum(checksum != data for checksum in then),
        unchanged=len(before) - len(changed) - len(lost),
        changed=tuple(changed),
        lost=tuple(lost),
        before=Score.of(before, env.success_threshold),
        after=Score.of(after, env.success_threshold),
    )


def _scored(stage: Stage, loop: LoopThread, episode: EpisodeResult) -> tuple[float | None, str]:
    """Return the new score, ``None`` if it cannot be played again, and the difference or reason."""
    try:
        played = stage.play(loop, episode)
    except NotReplayed as error:
        return None, str(error)
    first = next((one for one in played.differences if one.parts_ways), None)
    if first is not None:
        return None, f"turn {first.turn}: {_divergence(first)}"
    if played.reward == episode.reward:
        return played.reward, ""
    then, now = episode.trajectory.turns[-1], played.last
    return played.reward, _difference(then.metadata, now.metadata if now else {})


def _divergence(first: Difference) -> str:
    match first.field:
        case "observation":
            return "the agent would read something else"
        case "end":
            return f"{first.now}, and then: {first.recorded}"
        case _:
            return first.now


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say which part of the reward differs."""
    before, after = (one.get("reward_breakdown") or {} for one in (then, now))
    names = sorted(
        name
        for name in before.keys() | after.keys()
        if name != "reward" and before.get(name) != after.get(name)
    )
    return "another " + ", ".join(names) if names else "it is paid by another rule"

"""Fork a stored episode: play its first turns back, then continue live, several times."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillwright.config.load import load_config
from skillwright.config.run import RunConfig, SkillSection
from skillwright.core import EpisodeResult, RunError
from skillwright.core.seeds import derive_seed
from skillwright.jobs.inspect.episodes import (
    EpisodeQuery,
    FoundEpisode,
    find_episode,
    find_folder,
    list_episodes,
)
from skillwright.jobs.inspect.replay import NotReplayed, Stage
from skillwright.jobs.run.launch import refuse_redacted
from skillwright.jobs.text import EvalPlan, Run, start_run
from skillwright.jobs.text.fork import FORKED, RECORDED, Fork, split_of
from skillwright.rollout.loop_thread import LoopThread
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

_LONGEST_NAME: Final = 90


@dataclass(frozen=True, slots=True)
class PlannedFork:
    """A fork that was checked.

    Attributes:
        config: The run's configuration, under another name and seed.
        skill: The injected text.
        plan: The turn, and the number of trials.
        recorded: The episode to continue.
    """

    config: RunConfig
    skill: str
    plan: EvalPlan
    recorded: EpisodeResult

    def start(self) -> Run:
        """Make its run; raises as `start_run`."""
        return start_run(self.config, self.skill, self.plan, self.recorded)


def plan_fork(
    run: str | Path,
    episode: str,
    turn: int,
    skill: str | None = None,
    trials: int = 8,
    *,
    root: str | Path = "runs",
    overrides: Sequence[str] = (),
) -> PlannedFork:
    """Find an episode, play its first turns back, and plan how it continues.

    Args:
        run: A run's folder or name, or ``latest``.
        episode: A name as for `read_episode`.
        turn: The first turn that is played anew, from 0.
        skill: The text to inject; ``None`` for the episode's own.
        trials: The number of continuations.
        root: The folder that holds runs, and gets the fork.
        overrides: Other settings, such as ``models.target.temperature=1``.

    Raises:
        RunError: There is no such run, episode or turn; no model played it; or its first turns do
            not equal the record.
        UsageError: A setting is wrong, or the environment's data is missing.
    """
    path = find_folder(run, root)
    stage = Stage.of(path)
    if not isinstance(stage.config, RunConfig):
        raise RunError(
            f"{path.name!r} is a run of `skillwright rl`, whose policies act with weights of their "
            "time; `fork` continues episodes of models.target. `skillwright replay` takes both"
        )
    config = load_config(path / CONFIG_NAME, overrides)
    refuse_redacted(config.env.config, path)
    stage = Stage.by(config)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        found = find_episode(store, path.name, episode)
        recorded = store.load_episode(found.id)
    name = f"e{found.id}"
    injected = _checked(stage, recorded, turn, f"{path.name} {name}")
    fork = Fork(str(path), name, turn)
    changed: dict[str, Any] = {
        "run": config.run.model_copy(
            update={
                "name": f"{path.name[:_LONGEST_NAME]}-fork",
                "root": str(root),
                "seed": derive_seed("fork", config.run.seed, recorded.key, turn),
            }
        ),
        # The injected text is in the run's store; its files are not read again.
        "skill": SkillSection(),
        "rollout": config.rollout.model_copy(update={"reuse": []}),
    }
    return PlannedFork(
        config.model_copy(update=changed),
        injected if skill is None else skill,
        EvalPlan(split_of(recorded), trials, fork=fork),
        recorded,
    )


def _checked(stage: Stage, recorded: EpisodeResult, turn: int, name: str) -> str:
    """Play the first turns back, and return the injected skill text."""
    last = len(recorded.trajectory.turns)
    if turn > last > 0:
        raise RunError(f"{name} has turns 0 to {last - 1}, so none of them is turn {turn}")
    try:
        with closing(LoopThread()) as loop:
            played = stage.play(loop, recorded, turn)
    except NotReplayed as error:
        raise RunError(f"{name} cannot be continued: {error}") from error
    if (found := played.difference) is not None:
        where = "its opening" if found.turn is None else f"turn {found.turn}"
        raise RunError(
            f"{name} does not come out as recorded, so it cannot be continued: {where}, "
            f"{found.field}: {found.recorded!r} then, {found.now!r} now"
        )
    if played.reward is not None:
        raise RunError(f"{name} is over after turn {turn - 1}; --turn 0 to {turn - 1} continue it")
    return played.skill or ""


@dataclass(frozen=True, slots=True)
class ForkOutcome:
    """The result of an episode and of its continuations, by draw."""

    recorded: FoundEpisode
    continuations: tuple[FoundEpisode, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "recorded": self.recorded.to_dict(),
            "continuations": [one.to_dict() for one in self.continuations],
        }


def read_fork(run: str | Path) -> ForkOutcome:
    """Read the results of a fork.

    Raises:
        RunError: There is no such run, or it is no fork.
    """
    (recorded,) = list_episodes(run, query=EpisodeQuery(phase=RECORDED)).episodes
    found = list_episodes(run, query=EpisodeQuery(phase=FORKED)).episodes
    by_draw = {one.summary.draw: one for one in reversed(found)}
    return ForkOutcome(recorded, tuple(by_draw[draw] for draw in sorted(by_draw)))

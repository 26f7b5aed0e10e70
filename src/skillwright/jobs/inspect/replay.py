"""Replay stored episodes in fresh environments, and compare them turn by turn, without models."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillwright.config import RlConfig, RunConfig, is_rl_config, load_config, load_rl_config
from skillwright.config.env import EnvSection
from skillwright.core import EpisodeResult, RunError, UsageError
from skillwright.core.jsonio import JsonRecord
from skillwright.core.secrets import REDACTED
from skillwright.jobs.bank.distill import BASE
from skillwright.jobs.inspect.episodes import find_episode, find_folder
from skillwright.jobs.run.bench import env_identity, make_env
from skillwright.jobs.run.tasks import is_adapter
from skillwright.rollout import Limits, MakeEnv, PromptStyle, episode_key
from skillwright.rollout.loop_thread import LoopThread
from skillwright.rollout.playback import Difference, PlayedBack, play_back
from skillwright.runs import EpisodeSummary, RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class Differing(JsonRecord):
    """An episode with another course or result.

    Attributes:
        episode: Its name, such as ``e12``.
        difference: The first difference.
        as_then: Whether settings, data and version of the environment are those of the record.
    """

    episode: str
    task_id: str
    draw: int
    difference: Difference
    as_then: bool


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay.

    Attributes:
        equal: Number of episodes that equal the record.
        turns: Number of turns played.
        differing: Number of episodes that differ.
        differences: The first differing episodes.
        reasons: Number of episodes that cannot be replayed, by reason.
        samples: The name of one such episode, by reason.
    """

    run: str
    equal: int = 0
    turns: int = 0
    differing: int = 0
    differences: list[Differing] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    @property
    def not_replayed(self) -> int:
        """Number of episodes that cannot be replayed."""
        return self.reasons.total()

    @property
    def stands(self) -> bool:
        """Whether at least one episode was replayed, and all are as recorded."""
        return self.equal > 0 and not self.differing

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "run": self.run,
            "equal": self.equal,
            "turns": self.turns,
            "differing": self.differing,
            "differences": [one.to_dict() for one in self.differences],
            "not_replayed": self.not_replayed,
            "reasons": [
                {"reason": reason, "episodes": count, "sample": self.samples[reason]}
                for reason, count in self.reasons.most_common()
            ],
        }

    def miss(self, name: str, reason: str) -> None:
        """Count an episode that could not be replayed."""
        if reason not in self.reasons and len(self.reasons) >= _MOST_SHOWN:
            reason = _OTHER_REASONS
        self.reasons[reason] += 1
        self.samples.setdefault(reason, name)

    def differ(self, one: Differing) -> None:
        """Count an episode that differs from the record."""
        self.differing += 1
        if len(self.differences) < _MOST_SHOWN:
            self.differences.append(one)


def replay_run(
    run: str | Path,
    episodes: Sequence[str] = (),
    root: str | Path = "runs",
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> ReplayReport:
    """Replay stored episodes; the run may be running.

    Args:
        run: A run's folder or name, or ``latest``.
        episodes: Names as for `read_episode`; all by default.
        root: The folder that holds runs.
        watch: Called with the number of episodes done, and of all.

    Raises:
        RunError: There is no such run or episode, or its store is damaged.
        UsageError: Its configuration cannot be read.
    """
    path = find_folder(run, root)
    report = ReplayReport(path.name)
    with RunStore.open(path / STORE_NAME, read_only=True) as store, closing(LoopThread()) as loop:
        wanted = _wanted(store, path.name, episodes)
        try:
            stage = Stage.of(path)
        except NotReplayed as error:
            for one in wanted:
                report.miss(f"e{one.id}", str(error))
            return report
        for done, one in enumerate(wanted, start=1):
            _replay(stage, loop, store, one, report)
            watch(done, len(wanted))
    return report


_MOST_SHOWN: Final = 50
"""Maximum number of differences and reasons that a report lists; all are counted."""
_OTHER_REASONS: Final = "other reasons"


class NotReplayed(RunError):
    """An episode cannot be played back; the message says why."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The environments of a run's episodes, with the style of its prompts."""

    config: RunConfig | RlConfig
    make_env: MakeEnv
    prompt: PromptStyle

    @classmethod
    def of(cls, path: Path) -> "Stage":
        """Return the stage of a run by its folder.

        Raises:
            NotReplayed: An adapter played it, or its configuration is unknown.
            UsageError: Its configuration cannot be read.
        """
        file = path / CONFIG_NAME
        if not file.is_file():
            raise NotReplayed(
                f"{str(path)!r} has no {CONFIG_NAME}: what was played for a bank has no settings "
                "of its own to be played back by"
            )
        config = load_rl_config(file) if is_rl_config(file) else load_config(file)
        return cls.by(config)

    @classmethod
    def by(cls, config: RunConfig | RlConfig) -> "Stage":
        """Return the stage of a configuration."""
        return cls(config, make_env(_ours(config.env)), PromptStyle(config.rollout.history_turns))

    def limits(self, phase: str) -> Limits:
        """Return the bounds of the episodes of a phase."""
        distill = self.config.distill if isinstance(self.config, RlConfig) else None
        longer = distill.max_turns if distill and phase == BASE else None
        return Limits(max_turns=longer or self.config.env.max_turns)

    def play(
        self, loop: LoopThread, episode: EpisodeResult, turns: int | None = None
    ) -> PlayedBack:
        """Play an episode back, or its first turns.

        Raises:
            NotReplayed: It has no turn, or the store lacks a part of it.
            UsageError: Its environment cannot be built, because the data is missing.
        """
        trajectory = episode.trajectory
        if not trajectory.turns:
            why = "" if episode.failure is None else f": {episode.failure.cause.value}"
            raise NotReplayed(f"it ended before its first turn{why}")
        if any(REDACTED in turn.act.written for turn in trajectory.turns):
            raise NotReplayed("its agent said a secret, which is not stored")
        limits = self.limits(episode.spec.phase)
        return loop.run(play_back(episode, self.make_env, limits, self.prompt, turns))

    def is_as_then(self, episode: EpisodeResult, agent: str, skill: str | None) -> bool:
        """Tell whether an episode was played with this data, these settings and this version."""
        return skill is not None and episode.key == episode_key(
            episode.spec,
            skill,
            agent_identity=agent,
            env_identity=env_identity(self.config.env),
            limits=self.limits(episode.spec.phase),
            prompt=self.prompt,
        )


def _ours(env: EnvSection) -> EnvSection:
    if is_adapter(env):
        raise NotReplayed(
            f"the EnvAdapter {env.name!r} plays by itself: only environments can be played back"
        )
    return env


def _wanted(store: RunStore, run: str, names: Iterable[str]) -> list[EpisodeSummary]:
    named = {one.id: one for one in (find_episode(store, run, name) for name in names)}
    every = named.values() if named else store.episodes()
    return sorted(every, key=lambda one: one.id)


def _replay(
    stage: Stage, loop: LoopThread, store: RunStore, one: EpisodeSummary, report: ReplayReport
) -> None:
    name = f"e{one.id}"
    try:
        episode = store.load_episode(one.id)
        played = stage.play(loop, episode)
    except (RunError, UsageError) as error:
        report.miss(name, str(error))
        return
    report.turns += played.turns
    found = played.difference
    if found is None:
        report.equal += 1
    elif REDACTED in found.recorded:
        report.miss(name, "its environment showed a secret, which is not stored")
    else:
        as_then = stage.is_as_then(episode, one.agent, played.skill)
        report.differ(Differing(name, one.task_id, one.draw, found, as_then))

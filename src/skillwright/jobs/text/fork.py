"""Continue a recorded episode: the bench of an evaluation that forks it."""

from dataclasses import dataclass, replace
from typing import Final, get_args

from skillwright.core import EpisodeResult, RunError
from skillwright.core.jsonio import JsonRecord
from skillwright.datasets import Splits
from skillwright.jobs.run.bench import SplitName, TextBench
from skillwright.jobs.run.memory import StoredEpisodes
from skillwright.rollout import LocalEngine
from skillwright.rollout.playback import RecordedStart, continuing
from skillwright.runs import RunStore

RECORDED: Final = "recorded"
"""The phase of the episode that a fork continues, in the store of the fork."""
FORKED: Final = "fork"
"""The phase of the episodes that continue it."""


@dataclass(frozen=True, slots=True)
class Fork(JsonRecord):
    """The turn of a recorded episode from which an evaluation continues.

    Attributes:
        run: The folder of the episode's run.
        episode: Its name there, such as ``e12``.
        turn: The first turn that is played anew, from 0.
    """

    run: str
    episode: str
    turn: int

    @property
    def line(self) -> str:
        """The starting point, for people."""
        return f"from turn {self.turn} of {self.episode} in {self.run}"


def split_of(episode: EpisodeResult) -> SplitName:
    """Return the split under which the task of an episode is played; train for no other."""
    split = episode.spec.task.split
    return next((one for one in get_args(SplitName) if one == split), "train")


def recorded_episode(store: RunStore) -> EpisodeResult:
    """Return the episode that a fork continues, from the copy in its store."""
    found = store.episodes(phase=RECORDED)
    if not found:
        raise RunError(f"{str(store.folder)!r} lacks the episode that it continues; fork it again")
    return store.load_episode(found[0].id)


def forked(bench: TextBench, engine: LocalEngine, store: RunStore, fork: Fork) -> TextBench:
    """Return a bench whose only task continues the recorded episode from a turn.

    The world has the recorded seed; the draws differ in the seeds of the agent.
    """
    recorded = recorded_episode(store)
    agent = RecordedStart(engine.agent, recorded, fork.turn)
    record = recorded.trajectory
    continued = replace(
        engine,
        agent=agent,
        make_env=continuing(engine.make_env, record, fork.turn),
        recorder=StoredEpisodes(store, agent.identity),
    )
    task = recorded.spec.task
    task = replace(task, extras={"seed": recorded.spec.seed, **task.extras})
    tasks = {name: [task] if name == split_of(recorded) else [] for name in get_args(SplitName)}
    return replace(bench, engine=continued, splits=Splits.of(**tasks))

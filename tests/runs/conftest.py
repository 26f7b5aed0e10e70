"""Stores and episodes to put into them."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillwright.core import (
    Act,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    StopReason,
    Task,
    Trajectory,
    Turn,
    Usage,
)
from skillwright.runs import Redactor, RunStore
from skillwright.runs.database import Database

MakeEpisode = Callable[..., EpisodeResult]
SYSTEM = {"role": "system", "content": "You act in a house.\n\n## Skill\n\n- Open what is closed."}


@pytest.fixture
def clock() -> Callable[[], float]:
    """A clock that ticks once a second whenever somebody looks."""
    ticks = itertools.count(1_000)
    return lambda: float(next(ticks))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where the store of a run called demo is."""
    (tmp_path / "demo").mkdir()
    return tmp_path / "demo" / "run.sqlite"


@pytest.fixture
def database(store_path: Path) -> Database:
    """The file under the store."""
    return Database(store_path)


@pytest.fixture
def store(database: Database, clock: Callable[[], float]) -> Iterator[RunStore]:
    """An empty store."""
    with RunStore(database, Redactor(), clock) as opened:
        yield opened


@pytest.fixture
def make_episode() -> MakeEpisode:
    """Makes an episode whose prompts grow turn by turn."""
    return _episode


def _episode(
    task_id: str = "t1",
    *,
    turns: int = 3,
    key: str | None = None,
    failure: Failure | None = None,
    window: int | None = None,
    phase: str = "train",
    draw: int = 0,
    step: int | None = None,
) -> EpisodeResult:
    opening = f"You are in the middle of a room. Your task is to: find {task_id}."
    head = [SYSTEM, {"role": "user", "content": opening}]
    exchanges: list[list[dict[str, str]]] = []
    done = []
    for index in range(turns):
        kept = exchanges if window is None else exchanges[max(index - window, 0) :]
        prompt = (*head, *(message for exchange in kept for message in exchange))
        observation = f"You arrive at cabinet {index}. It is closed."
        reply = {"role": "user", "content": f"{observation}\n\nAdmissible commands: help, look"}
        usage = Usage(1, 100 + index, 10, cost_usd=0.5)
        act = Act(f"<action>go to cabinet {index}</action>", usage)
        metadata = {"observation": observation, "admissible_commands": ["help", "look"]}
        done.append(Turn(index, prompt, act, observation, 0.0, metadata, (reply,), seed=index + 7))
        exchanges.append([{"role": "assistant", "content": act.text}, reply])
    return EpisodeResult(
        EpisodeSpec(
            Task(task_id, "alfworld", {"house": [1, 2]}, "heat", "Heat it.", "train"),
            seed=5,
            draw=draw,
            phase=phase,
            step=step,
        ),
        reward=None if failure else 1.0,
        failure=failure,
        stop_reason=StopReason.FAILURE if failure else StopReason.DONE,
        trajectory=Trajectory(opening, tuple(done), {"won": False}),
        metrics={"turns": float(turns)},
        attempts=2,
        skill_version="abc",
        key=f"key of {task_id} {draw}" if key is None else key,
        wall_s=1.5,
    )

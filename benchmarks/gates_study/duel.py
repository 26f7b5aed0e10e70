"""A duel without agents: both sides succeed by chance, at known rates."""

from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from gates_study.worlds import Rates, Run
from skillwright.core import EpisodeResult, EpisodeSpec, Pair, Task

T = TypeVar("T")

Stored = dict[int, list[float]]
"""Draws of the incumbent by the place of the task; later duels get them again without paying."""


class SimulatedDuel:
    """Both sides on the validation tasks of a run, which pays for what is drawn.

    Args:
        run: Draws the results.
        incumbent: Rates of the incumbent.
        candidate: Rates of the candidate.
        stored: The incumbent's draws so far, which are used and extended; ``None`` draws anew.
    """

    def __init__(
        self, run: Run, incumbent: Rates, candidate: Rates, stored: Stored | None = None
    ) -> None:
        self._run, self._incumbent, self._candidate = run, incumbent, candidate
        self._stored: Stored = {} if stored is None else stored
        self._used = [0] * run.tasks
        self.task_ids: Sequence[str] = task_ids(run.tasks)
        self.waves = 0

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task."""
        self.waves += 1
        places = _places(task_ids, n)
        new = self._run.draw(self._candidate, places)
        return [
            Pair(_result(int(at), self._old(int(at))), _result(int(at), float(reward)))
            for at, reward in zip(places, new, strict=True)
        ]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        """Draw the next ``n`` episodes of each task under the candidate alone."""
        self.waves += 1
        places = _places(task_ids, n)
        rewards = self._run.draw(self._candidate, places)
        return [_result(int(at), float(one)) for at, one in zip(places, rewards, strict=True)]

    def _old(self, place: int) -> float:
        stored, used = self._stored.setdefault(place, []), self._used[place]
        if used == len(stored):
            stored.append(float(self._run.draw(self._incumbent, np.array([place]))[0]))
        self._used[place] += 1
        return stored[used]


@cache
def task_ids(tasks: int) -> tuple[str, ...]:
    """Return the ids of validation tasks."""
    return tuple(f"t{number:03}" for number in range(tasks))


def _places(task_ids: Sequence[str], n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat([int(task_id[1:]) for task_id in task_ids], n)


@cache
def _result(place: int, reward: float) -> EpisodeResult:
    return EpisodeResult(EpisodeSpec(Task(f"t{place:03}", env="simulated"), seed=0), reward)


def result_of(judging: Coroutine[Any, Any, T]) -> T:
    """Return what a gate decides on a simulated duel, which never has to wait."""
    try:
        judging.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a simulated duel never waits")

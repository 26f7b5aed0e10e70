"""A `Duel` without agents: both sides succeed by chance, at known rates."""

from collections.abc import Coroutine, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from gates_study.worlds import Rates
from skillwright.core import EpisodeResult, EpisodeSpec, Failure, FailureCause, Pair, Task

LOST = 2  # beside 0 and 1: the episode has a Failure instead of a reward

T = TypeVar("T")


class Side:
    """The episodes of one skill: drawn ahead, paid for when they are first asked for.

    Args:
        rates: Success rates of the validation tasks.
        draws: Numbered draws per task that may be asked for.
        rng: Decides which episodes succeed.
        lost: The chance that an episode is lost.
    """

    def __init__(self, rates: Rates, draws: int, rng: np.random.Generator, lost: float) -> None:
        self._rng, self._rates, self._lost = rng, rates, lost
        outcomes = (rng.random((draws, len(rates))) < rates).astype(np.int8)
        if lost:
            outcomes[rng.random(outcomes.shape) < lost] = LOST
        self.outcomes: list[list[int]] = outcomes.T.tolist()
        self.paid = [0] * len(rates)  # a task's draws are asked for in order

    def again(self, task: int) -> int:
        """Play an episode anew that was lost before."""
        if self._rng.random() < self._lost:
            return LOST
        return int(self._rng.random() < self._rates[task])


class FakeDuel:
    """Two sides on the same tasks. Stored episodes count no rollouts, but a lost one is replayed.

    Args:
        incumbent: The side that stands; its episodes may have been paid for by earlier duels.
        candidate: The other.
    """

    def __init__(self, incumbent: Side, candidate: Side) -> None:
        self._incumbent, self._candidate = incumbent, candidate
        self._pairs, self._index = _cached(len(incumbent.paid))
        self._next = [0] * len(incumbent.paid)
        self.task_ids: Sequence[str] = list(self._index)
        self.rollouts = 0
        self.waves = 0

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task."""
        self.waves += 1
        drawn: list[Pair] = []
        for task_id in task_ids:
            task = self._index[task_id]
            first, cached = self._next[task], self._pairs[task]
            last = self._next[task] = first + n
            old, new = self._incumbent.outcomes[task], self._candidate.outcomes[task]
            self._pay(task, first, last)
            drawn += [cached[old[draw]][new[draw]] for draw in range(first, last)]
        return drawn

    def _pay(self, task: int, first: int, last: int) -> None:
        self._candidate.paid[task] = last
        self.rollouts += last - first
        paid, old = self._incumbent.paid[task], self._incumbent.outcomes[task]
        if LOST in old:
            for draw in range(first, min(last, paid)):
                if old[draw] == LOST:
                    old[draw] = self._incumbent.again(task)
                    self.rollouts += 1
        if last > paid:
            self.rollouts += last - paid
            self._incumbent.paid[task] = last


@lru_cache(maxsize=8)
def _cached(tasks: int) -> tuple[list[list[list[Pair]]], dict[str, int]]:
    """Return the pairs that can occur, by task and both outcomes, and the tasks' places by id."""
    pairs = []
    for number in range(tasks):
        results = [_result(f"t{number:03}", outcome) for outcome in range(3)]
        pairs.append([[Pair(old, new) for new in results] for old in results])
    return pairs, {f"t{number:03}": number for number in range(tasks)}


def _result(task_id: str, outcome: int) -> EpisodeResult:
    spec = EpisodeSpec(Task(task_id, env="simulated"), seed=0)
    if outcome == LOST:
        return EpisodeResult(spec, failure=Failure(FailureCause.MODEL, "lost on purpose"))
    return EpisodeResult(spec, float(outcome))


def result_of(judging: Coroutine[Any, Any, T]) -> T:
    """Return what a gate decides on a fake duel, which never has to wait."""
    try:
        judging.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a fake duel never waits")

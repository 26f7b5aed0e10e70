"""Fixtures for scores and gates: results, pairs and duels whose truth is known."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from skillwright.core import EpisodeResult, EpisodeSpec, Failure, FailureCause, Pair, Task

MakeResult = Callable[..., EpisodeResult]
MakePairs = Callable[..., list[Pair]]


def _result(
    reward: float | None, task_id: str = "t0", *, family: str = "", draw: int = 0, **fields
) -> EpisodeResult:
    spec = EpisodeSpec(Task(task_id, env="toy", task_type=family), seed=1, draw=draw)
    failure = Failure(FailureCause.MODEL, "no answer") if reward is None else None
    return EpisodeResult(spec, reward, failure, **fields)


def _pairs(
    rewards: Sequence[tuple[float | None, float | None]], *, family: str = "", first: int = 0
) -> list[Pair]:
    return [
        Pair(
            _result(old, f"t{first + i}", family=family),
            _result(new, f"t{first + i}", family=family),
        )
        for i, (old, new) in enumerate(rewards)
    ]


@dataclass
class ListedDuel:
    """Answers every draw with the same listed pairs, and notes what was asked."""

    pairs: list[Pair]
    asked: list[int] = field(default_factory=list)

    @property
    def task_ids(self) -> Sequence[str]:
        return list(dict.fromkeys(pair.task_id for pair in self.pairs))

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        self.asked.append(n)
        return [pair for task_id in task_ids for pair in self.pairs if pair.task_id == task_id]


@dataclass
class DrawnDuel:
    """Gives each task the results of its list in turn, the last again and again; notes the asking.

    Attributes:
        draws: Rewards of incumbent and candidate by draw, for each task.
        asked: What was asked for: task ids, and how many draws of each.
        task type: By task, where it has one.
    """

    draws: Mapping[str, Sequence[tuple[float | None, float | None]]]
    family: Mapping[str, str] = field(default_factory=dict)
    asked: list[tuple[list[str], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next = dict.fromkeys(self.draws, 0)

    @property
    def task_ids(self) -> Sequence[str]:
        return list(self.draws)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        self.asked.append((list(task_ids), n))
        return [self._pair(task_id) for task_id in task_ids for _ in range(n)]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        return [pair.candidate for pair in await self.draw(task_ids, n)]

    def _pair(self, task_id: str) -> Pair:
        number, told = self._next[task_id], self.draws[task_id]
        self._next[task_id] += 1
        old, new = told[min(number, len(told) - 1)]
        about = {"family": self.family.get(task_id, ""), "draw": number}
        return Pair(_result(old, task_id, **about), _result(new, task_id, **about))


@dataclass
class ChanceDuel:
    """Both sides succeed by chance: per-task rates are Beta(0.6, 0.6), the candidate's shifted."""

    tasks: int
    shift: float
    seed: int

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        rates = [self._rng.betavariate(0.6, 0.6) for _ in range(self.tasks)]
        self._rates = {f"t{i}": rate for i, rate in enumerate(rates)}

    @property
    def task_ids(self) -> Sequence[str]:
        return list(self._rates)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        return [
            Pair(self.play(task_id, 0.0, draw), self.play(task_id, self.shift, draw))
            for task_id in task_ids
            for draw in range(n)
        ]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        return [self.play(task_id, self.shift) for task_id in task_ids for _ in range(n)]

    def play(self, task_id: str, shift: float, draw: int = 0) -> EpisodeResult:
        """Succeed by chance."""
        rate = min(1.0, max(0.0, self._rates[task_id] + shift))
        return _result(float(self._rng.random() < rate), task_id, draw=draw)


@pytest.fixture(scope="session")
def make_result() -> MakeResult:
    return _result


@pytest.fixture(scope="session")
def make_pairs() -> MakePairs:
    return _pairs


@pytest.fixture(scope="session")
def listed_duel() -> type[ListedDuel]:
    return ListedDuel


@pytest.fixture(scope="session")
def drawn_duel() -> type[DrawnDuel]:
    return DrawnDuel


@pytest.fixture(scope="session")
def chance_duel() -> type[ChanceDuel]:
    return ChanceDuel

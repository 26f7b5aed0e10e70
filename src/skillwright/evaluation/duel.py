"""Draw paired episodes of two skills, with equal tasks and seeds."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    Pair,
    SkillContext,
    SkillSource,
    Task,
    did_you_mean,
)
from skillwright.core.seeds import derive_seed, evaluation_seed
from skillwright.rollout import Engine


@dataclass(frozen=True, slots=True)
class Draws:
    """Seeds and labels of a duel's draws.

    Attributes:
        seed: The run's evaluation seed.
        first: Number of each task's first draw; the draw's number determines its seed.
        phase: Phase of the episodes, for the record.
        step: Training step of the episodes, for the record.
    """

    seed: int
    first: int = 0
    phase: str = "gate"
    step: int | None = None

    def spec(self, task: Task, number: int) -> EpisodeSpec:
        """Return the episode spec of a task's draw, the same for both sides of a pair."""
        seed = evaluation_seed(self.seed, task.id, number)
        return EpisodeSpec(task, seed, number, self.phase, self.step)

    def order(self, *names: str | int) -> tuple[int, int]:
        """Return the side that starts first and the other: 0 is the incumbent, 1 the candidate.

        The order is random by name, so that an endpoint whose level moves favors neither side.
        """
        first = derive_seed("order", self.seed, *names) % 2
        return first, 1 - first


LEAST_IN_BLOCK = 5
"""Minimum tasks of a block, if there are as many."""


def blocks(task_ids: Sequence[str], most: int = 8) -> list[Sequence[str]]:
    """Divide tasks into consecutive blocks, for sides that cannot be played at once.

    Each block is played by both sides before the next one, so that both meet the same level of an
    endpoint.

    Args:
        task_ids: The tasks.
        most: Maximum number of blocks, because each costs a call per side.
    """
    count = max(1, min(most, len(task_ids) // LEAST_IN_BLOCK))
    ends = [len(task_ids) * at // count for at in range(count + 1)]
    return [task_ids[start:end] for start, end in pairwise(ends)]


class DrawCount:
    """Numbers the draws of each task consecutively.

    Args:
        first: The number of each task's first draw, by id.
    """

    def __init__(self, first: Mapping[str, int]) -> None:
        self._next = dict(first)

    def take(self, task_id: str, n: int) -> range:
        """Return the numbers of the next ``n`` draws of a task.

        Raises:
            ValueError: The task is not part of the duel.
        """
        if task_id not in self._next:
            near = did_you_mean(task_id, self._next)
            raise ValueError(f"task {task_id!r} is not part of this duel. {near}")
        first = self._next[task_id]
        self._next[task_id] += n
        return range(first, first + n)

    def take_each(self, task_ids: Sequence[str], n: int) -> list[tuple[str, int]]:
        """Return the next ``n`` draws of each task, as task ids and numbers, in order.

        Raises:
            ValueError: A task is not part of the duel.
        """
        return [(task_id, number) for task_id in task_ids for number in self.take(task_id, n)]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A skill text for each episode of one request, in order."""

    waits: ClassVar[bool] = False

    listed: Sequence[SkillContext]

    def context(self, task: Task) -> SkillContext:
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        if len(tasks) != len(self.listed):
            raise ValueError(f"{len(self.listed)} skill texts for {len(tasks)} episodes")
        return list(self.listed)


class SkillDuel:
    """Draws paired episodes of two skills through an engine.

    Both episodes of a pair have the same task, draw number and seed, and start together, in random
    order. So where an endpoint's level moves, it moves for both sides. Drawing a task again
    continues its numbers, so that no draw is used twice.

    If both sides have the same skill text for a task, one episode serves both. Its draws are
    numbered from 0, because earlier decisions have already played these: a bank update changes the
    text of few tasks, and only those are played anew.

    Args:
        engine: Runs the episodes.
        tasks: The held-out tasks, with unique ids.
        incumbent: The current skill.
        candidate: The skill that may replace it.
        draws: Seed and first number of the draws.

    Raises:
        ValueError: Two tasks have the same id.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        incumbent: SkillSource,
        candidate: SkillSource,
        draws: Draws,
    ) -> None:
        self._engine = engine
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) < len(tasks):
            twice = [name for name, n in Counter(task.id for task in tasks).items() if n > 1]
            raise ValueError(f"task ids must be unique; {twice[0]!r} is not")
        self._sides = (incumbent, candidate)
        self._draws = draws
        self._given: list[dict[str, SkillContext]] = []
        self._count = DrawCount({})

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks, in the order given."""
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``, both sides at once.

        Raises:
            ValueError: A task is not part of the duel.
            SkillwrightError: The engine stopped (`Engine.run`); failed episodes do not stop it.
        """
        await self._open()
        pairs = [
            (self._draws.spec(self._tasks[task_id], number), self._draws.order(task_id, number))
            for task_id, number in self._count.take_each(task_ids, n)
        ]
        starts = [(spec, side) for spec, order in pairs for side in order]
        listed = _Listed([self._given[side][spec.task.id] for spec, side in starts])
        results = iter(await self._engine.run([spec for spec, _ in starts], listed))
        drawn = [(next(results), next(results)) for _ in pairs]
        return [
            Pair(*(one if order == (0, 1) else one[::-1]))
            for one, (_, order) in zip(drawn, pairs, strict=True)
        ]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        """Draw the next ``n`` episodes of each task under the candidate alone.

        Raises:
            ValueError: A task is not part of the duel.
            SkillwrightError: The engine stopped (`Engine.run`); failed episodes do not stop it.
        """
        await self._open()
        specs = [
            self._draws.spec(self._tasks[task_id], number)
            for task_id, number in self._count.take_each(task_ids, n)
        ]
        listed = _Listed([self._given[1][spec.task.id] for spec in specs])
        return await self._engine.run(specs, listed)

    async def _open(self) -> None:
        if not self._given:
            self._given = await self._contexts()
            self._count = DrawCount(self._first_draws())

    async def _contexts(self) -> list[dict[str, SkillContext]]:
        """Return each side's skill text by task id."""
        tasks = list(self._tasks.values())
        given = [
            await asyncio.to_thread(side.contexts, tasks) if side.waits else side.contexts(tasks)
            for side in self._sides
        ]
        return [dict(zip(self._tasks, texts, strict=True)) for texts in given]

    def _first_draws(self) -> dict[str, int]:
        old, new = self._given
        return {
            one: 0 if old[one].text == new[one].text else self._draws.first for one in self._tasks
        }

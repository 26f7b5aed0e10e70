"""A duel of two skills: the same agent, tasks and luck; only the skill differs."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from skillwright.core import EpisodeSpec, Pair, SkillSource, Task, did_you_mean
from skillwright.core.seeds import evaluation_seed
from skillwright.rollout import Engine


class SkillDuel:
    """Draws paired results of two skills through an engine.

    Both sides of a pair have the same task, draw number and seed. Draws of a task are numbered
    from ``first_draw``; drawing it again continues the count, so no draw counts twice.

    Args:
        engine: Runs the episodes.
        tasks: The held-out tasks, with unique ids.
        incumbent: The skill that stands.
        candidate: The skill that wants its place.
        seed: The run's evaluation seed.
        first_draw: Number of each task's first draw. Another number is other luck.
        phase: What the episodes are recorded as.
        step: The training step that asks, for the record.

    Raises:
        ValueError: Two tasks have the same id.
    """

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        incumbent: SkillSource,
        candidate: SkillSource,
        seed: int,
        first_draw: int = 0,
        phase: str = "gate",
        step: int | None = None,
    ) -> None:
        self._engine = engine
        self._tasks = {task.id: task for task in tasks}
        if len(self._tasks) < len(tasks):
            twice = [name for name, n in Counter(task.id for task in tasks).items() if n > 1]
            raise ValueError(f"task ids must be unique; {twice[0]!r} is not")
        self._incumbent = incumbent
        self._candidate = candidate
        self._seed = seed
        self._phase = phase
        self._step = step
        self._next_draw = dict.fromkeys(self._tasks, first_draw)

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks, in the order given."""
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``, both sides at once.

        Raises:
            ValueError: A task is not part of the duel.
            SkillwrightError: What stopped the engine (`Engine.run`); a Failure does not.
        """
        specs = [spec for task_id in task_ids for spec in self._next_specs(task_id, n)]
        try:
            async with asyncio.TaskGroup() as group:
                incumbents = group.create_task(self._engine.run(specs, self._incumbent))
                candidates = group.create_task(self._engine.run(specs, self._candidate))
        except ExceptionGroup as faults:
            # What stopped one side has cancelled the other; callers know it by its own type.
            raise faults.exceptions[0] from None
        return [
            Pair(incumbent, candidate)
            for incumbent, candidate in zip(incumbents.result(), candidates.result(), strict=True)
        ]

    def _next_specs(self, task_id: str, n: int) -> list[EpisodeSpec]:
        if task_id not in self._tasks:
            raise ValueError(
                f"task {task_id!r} is not part of this duel. {did_you_mean(task_id, self._tasks)}"
            )
        first = self._next_draw[task_id]
        self._next_draw[task_id] += n
        return [
            EpisodeSpec(
                task=self._tasks[task_id],
                seed=evaluation_seed(self._seed, task_id, draw),
                draw=draw,
                phase=self._phase,
                step=self._step,
            )
            for draw in range(first, first + n)
        ]

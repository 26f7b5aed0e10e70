"""Two skills on an adapter's val split, for a gate to draw from."""

from collections.abc import Sequence

from skillwright.core import EpisodeResult, Pair
from skillwright.core.together import together
from skillwright.evaluation import DrawCount, Draws
from skillwright.jobs.adapters.rollouts import Rollouts, refuse_no_score


class AdapterDuel:
    """Draws paired results; draw number n of every task is the n-th rollout of the split."""

    def __init__(
        self, rollouts: Rollouts, sides: tuple[str, str], draws: Draws, ids: Sequence[str]
    ) -> None:
        self._rollouts, self._sides, self._draws = rollouts, sides, draws
        self._ids = tuple(ids)
        self._count = DrawCount(dict.fromkeys(ids, draws.first))
        self._has_score = False

    @property
    def task_ids(self) -> Sequence[str]:
        """The held-out tasks, in the split's order."""
        return self._ids

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``."""
        numbers: dict[int, list[str]] = {}
        for task_id in task_ids:
            for number in self._count.take(task_id, n):
                numbers.setdefault(number, []).append(task_id)
        drawn = dict(
            zip(numbers, await together(self._pairs(*one) for one in numbers.items()), strict=True)
        )
        self._has_score = True
        return [
            drawn[number][task_id]
            for task_id in task_ids
            for number in sorted(numbers)
            if task_id in drawn[number]
        ]

    async def _pairs(self, number: int, ids: Sequence[str]) -> dict[str, Pair]:
        phase, step = self._draws.phase, self._draws.step
        old, new = await together(
            self._rollouts.play("val", text, phase, draw=number, ids=ids, step=step)
            for text in self._sides
        )
        if not self._has_score:
            refuse_no_score([*old, *new], "val", self._rollouts.player.name)
        before, after = _by_id(old), _by_id(new)
        return {one: Pair(before[one], after[one]) for one in ids if one in before and one in after}


def _by_id(results: Sequence[EpisodeResult]) -> dict[str, EpisodeResult]:
    return {result.task_id: result for result in results}

"""The belief about the current skill, rebuilt from what a run has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import ClassVar, Final, Self

import numpy as np

from skillwright.evaluation.gates.belief import GRID, Array, Belief, Drawn
from skillwright.evaluation.verdict import Estimate, Rewards, Seen

REPEATS: Final = 12
"""Tasks that are drawn twice under one skill to find out whether the agent answers alike."""

FEW: Final = 8
"""Fewer repeated tasks tell nothing."""

_TELLING: Final = 3.0
"""Number of repeated tasks that must be expected to vary, if answers vary, before equal rewards
show that they do not: where nearly all rewards are 0, equal ones tell little."""
_MOST_REPEATS: Final = 2 * REPEATS
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class CurrentSkill:
    """What is known about the current skill.

    Attributes:
        task_ids: The held-out tasks.
        belief: The belief about its success rates, and about what edits do.
        own: Draws of the current skill itself.
        repeated: Tasks that one skill has drawn more than once.
        varied: Those whose rewards were not all equal.
        expected: How many would be expected to vary, if answers vary.
    """

    task_ids: tuple[str, ...]
    belief: Belief
    own: Drawn
    repeated: int = 0
    varied: int = 0
    expected: float = 0.0
    _latest: ClassVar["tuple[Sequence[Seen], CurrentSkill] | None"] = None

    @classmethod
    def of(cls, task_ids: Sequence[str], seen: Sequence[Seen]) -> "CurrentSkill":
        """Rebuild it from what a run has seen, the initial skill's draws first.

        It continues from the latest one that was rebuilt, if ``seen`` begins with what that saw.
        """
        known, current = cls._latest or ((), None)
        begins = len(known) <= len(seen) and all(map(is_, known, seen))
        if current is None or not begins or current.task_ids != tuple(task_ids):
            drawn = drawn_of(task_ids, seen[0].candidate)
            known, current = seen[:1], cls(tuple(task_ids), Belief.of_draws(drawn), drawn)
        for one in seen[len(known) :]:
            current = current.with_train(one.train).with_own(one.incumbent)
            current = current.after(one.candidate, accepted=one.accepted)
        cls._latest = (seen, current)
        return current

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each task in arrays."""
        return {task_id: at for at, task_id in enumerate(self.task_ids)}

    @property
    def repeats(self) -> bool | None:
        """Whether the agent answers alike each time; ``None`` if that is not known yet."""
        if self.varied:
            return False
        enough = self.repeated >= min(FEW, len(self.task_ids))
        return True if enough and self.expected >= min(_TELLING, self.repeated / 4) else None

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is worth to draw the current skill again to find out.

        After a number of tasks, only if further ones tell at least half of what is needed: if the
        initial skill solves little, equal rewards tell nothing before a better one is current.
        """
        if self.repeats is not None or self.repeated < _MOST_REPEATS:
            return self.repeats is None
        drawn = self._may_vary[self.own.counts > 0]
        further = float(drawn.mean()) * min(REPEATS, len(drawn)) if len(drawn) else 0.0
        return min(self.expected, _TELLING / 2) + further >= _TELLING

    @property
    def _may_vary(self) -> Array:
        """The believed chance that two draws of a task differ, if answers vary."""
        return self.belief.rates @ (2 * GRID * (1 - GRID))

    @property
    def estimate(self) -> Estimate:
        """The believed mean score of the current skill on these tasks."""
        return Estimate(round(self.belief.mean, 6), round(self.belief.error, 6))

    @property
    def gain(self) -> Estimate:
        """The believed gain of the current skill over the initial one, on tasks of this kind."""
        belief = self.belief
        return Estimate(round(belief.gained, 6), round(belief.variance**0.5, 6))

    def with_train(self, train: tuple[float, int]) -> Self:
        """Return what is known after the scores of a train batch: their sum and number."""
        return replace(self, belief=self.belief.with_train(*train)) if train[1] else self

    def with_own(self, rewards: Rewards) -> Self:
        """Return what is known after further draws of the current skill."""
        if not rewards:
            return self
        new = drawn_of(self.task_ids, rewards)
        both = (new.counts > 0) & (self.own.counts > 0)
        before = self.own.sums[both] / self.own.counts[both]
        varied = int((np.abs(before - new.sums[both] / new.counts[both]) > _ROUNDING).sum())
        return replace(
            self,
            belief=self.belief.with_draws(new),
            own=Drawn(self.own.sums + new.sums, self.own.counts + new.counts),
            repeated=self.repeated + int(both.sum()),
            varied=self.varied + varied,
            expected=self.expected + float(self._may_vary[both].sum()),
        )

    def after(self, rewards: Rewards, *, accepted: bool) -> Self:
        """Return what is known after a decision on a candidate with these draws."""
        if not rewards:
            return self
        drawn = drawn_of(self.task_ids, rewards)
        belief = self.belief.after(drawn, accepted=accepted)
        return replace(self, belief=belief, own=drawn if accepted else self.own)


def drawn_of(task_ids: Sequence[str], rewards: Rewards) -> Drawn:
    """Return draws as arrays, in the order of ``task_ids``; tasks that are not there count none."""
    found = [rewards.get(task_id, (0.0, 0)) for task_id in task_ids]
    sums = np.array([total for total, _ in found], np.float64)
    return Drawn(sums, np.array([count for _, count in found], np.float64))

"""Bounds on gains that hold for several questions together: is each worth something, or nothing?

A gate asks whether something new is better. Here the questions are about what a skill has already,
and the one that matters is whether it is *not* worse without: "no difference was seen" is no
answer to that, so what is bounded is the loss that was not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from skillwright.core import Pair
from skillwright.evaluation.gates.judging import too_many_lost, too_many_unscored
from skillwright.evaluation.intervals import Interval, bounded_mean_interval
from skillwright.evaluation.paired import PairedEffect, measure_effect, task_gains


@dataclass(frozen=True, slots=True)
class BoundedGain:
    """A measured gain between two bounds, each wrong with a chance of at most the alpha given.

    Attributes:
        effect: What the pairs say; its own interval is for one question alone.
        interval: The bounds.
        problem: Why nothing follows from them, or "".
    """

    effect: PairedEffect
    interval: Interval
    problem: str = ""

    @property
    def gain(self) -> float | None:
        """The mean gain over tasks; ``None`` where no pair was scored."""
        return self.effect.gain

    def is_above(self, gain: float) -> bool:
        """Whether it is proven to be more than this."""
        return not self.problem and self.interval.low > gain

    def is_below(self, gain: float) -> bool:
        """Whether it is proven to be less than this."""
        return not self.problem and self.interval.high < gain


def bound_gain(pairs: Sequence[Pair], tasks: int, alpha: float) -> BoundedGain:
    """Bound how much better the candidates of ``pairs`` do than their incumbents.

    The tasks are the sample: a task's draws are averaged, and only more tasks say more about tasks
    that were not drawn. Ask with a share of a ledger's alpha (`AlphaLedger.share`), and by
    Bonferroni's inequality all bounds of a kind hold together with what is left of 1.

    Args:
        pairs: Draws of both sides, as a gate's metric scores them. How often a task is drawn must
            not depend on its results: where only tasks that differ are drawn again, a loss seems
            smaller than it is.
        tasks: How many tasks were asked for.
        alpha: The chance, at each side, that the truth lies beyond the bound, in (0, 0.5).
    """
    effect = measure_effect(pairs, tests=False)
    gains = list(task_gains(pairs).values())
    interval = bounded_mean_interval(gains, -1.0, 1.0, 1 - 2 * alpha)
    return BoundedGain(effect, interval, too_many_lost(effect) or too_many_unscored(effect, tasks))


def least_margin(tasks: int, alpha: float) -> float:
    """Return the smallest loss that can be excluded on ``tasks`` where nothing differs."""
    return bounded_mean_interval([0.0] * tasks, -1.0, 1.0, 1 - 2 * alpha).high

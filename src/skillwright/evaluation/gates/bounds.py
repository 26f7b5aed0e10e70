"""Simultaneous confidence bounds on several gains, such as those of a skill's sections.

A section is proven useless only if the possible loss without it is bounded; that no difference was
measured is not enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from skillwright.core import Pair
from skillwright.evaluation.gates.judging import too_many_lost, too_many_unscored
from skillwright.evaluation.intervals import Interval, bounded_mean_interval
from skillwright.evaluation.paired import (
    PairedEffect,
    cluster_means,
    clusters_in,
    measure_effect,
    task_gains,
)


@dataclass(frozen=True, slots=True)
class BoundedGain:
    """A measured gain with two confidence bounds, each wrong with probability at most alpha.

    Attributes:
        effect: The measured effect; its own interval holds for a single comparison.
        interval: The bounds.
        problem: Why no conclusion is possible, or "".
    """

    effect: PairedEffect
    interval: Interval
    problem: str = ""

    @property
    def gain(self) -> float | None:
        """The mean gain; ``None`` without scored pairs."""
        return self.effect.gain

    def is_above(self, gain: float) -> bool:
        """Whether the true gain is proven to be above ``gain``."""
        return not self.problem and self.interval.low > gain

    def is_below(self, gain: float) -> bool:
        """Whether the true gain is proven to be below ``gain``."""
        return not self.problem and self.interval.high < gain


def bound_gain(pairs: Sequence[Pair], tasks: int, alpha: float) -> BoundedGain:
    """Bound the true mean gain of the candidates of ``pairs`` over their incumbents.

    The tasks are the sample, or clusters of near copies; their draws are averaged. With a share of
    a ledger's alpha (`AlphaLedger.share`) per comparison, all bounds on one side hold
    simultaneously with a probability of at least 1 minus the sum of the shares (Bonferroni).

    Args:
        pairs: Draws of both sides, scored by a gate's metric. The number of draws of a task must
            not depend on its results: if only tasks with differences were drawn again, losses
            would be underestimated.
        tasks: Number of requested tasks.
        alpha: Probability, per side, that the true gain is beyond the bound; in (0, 0.5).
    """
    effect = measure_effect(pairs, tests=False)
    gains = list(cluster_means(task_gains(pairs), clusters_in(pairs)).values())
    interval = bounded_mean_interval(gains, -1.0, 1.0, 1 - 2 * alpha)
    return BoundedGain(effect, interval, too_many_lost(effect) or too_many_unscored(effect, tasks))


def least_margin(tasks: int, alpha: float) -> float:
    """Return the smallest loss that can be ruled out on ``tasks`` when all results are equal."""
    return bounded_mean_interval([0.0] * tasks, -1.0, 1.0, 1 - 2 * alpha).high

"""How far two sides differ on the same tasks, where their attempts do not match one to one.

Each side's attempts at a task are averaged first. The tasks are the clusters and the independent
unit: Student's t over the tasks' mean differences is the interval that clustered standard errors
give with one mean per cluster, and the same as scipy's ``ttest_rel`` on the task means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation.intervals import (
    Interval,
    mean_interval,
    student_t_upper_tail,
    wilson_interval,
)
from skillwright.evaluation.paired import paired_p_value

IntervalMethod = Literal["student_t", "wilson"]

_EQUAL_DIGITS = 9  # differences that agree to this many digits are equal, up to rounding
MAX_EXACT_TASKS = 1000  # above it the exact test takes seconds and agrees with Student's t


@dataclass(frozen=True, slots=True)
class PairedDifference(JsonRecord):
    """How far the second side's scores lie above the first's.

    Attributes:
        tasks: Tasks that were compared, at least 1.
        first: Mean over tasks of the first side's scores.
        second: The same of the second side.
        effect: ``second - first``.
        interval: 95% confidence interval of the effect.
        method: ``student_t``; ``wilson`` where all differences are equal, or there is one task, so
            that Student's t has no spread to work with: the bound is then on the share of tasks
            that would differ by another amount, each by as much as scores in [0, 1] can.
        p_value: Two-sided paired t test; ``None`` for one task and where all differences are equal.
        exact_p_value: Two-sided randomization test, see `paired_p_value`; ``None`` where more than
            1,000 tasks differ.
        better: Tasks on which the second side scored higher.
        worse: Tasks on which it scored lower.
    """

    tasks: int
    first: float
    second: float
    effect: float
    interval: Interval
    method: IntervalMethod
    p_value: float | None
    exact_p_value: float | None
    better: int
    worse: int


def paired_difference(scores: Sequence[tuple[float, float]]) -> PairedDifference:
    """Estimate how far the second side lies above the first.

    Args:
        scores: ``(first, second)`` per task, each in [0, 1] and the mean over that side's attempts,
            shape ``[tasks]``. Every task counts the same, however many attempts it had.

    Raises:
        ValueError: There are no tasks.
    """
    if not scores:
        raise ValueError("no task was scored on both sides, so there is no difference")
    gains = [round(second - first, _EQUAL_DIGITS) for first, second in scores]
    by_t = mean_interval(gains)
    return PairedDifference(
        tasks=len(scores),
        first=fmean(first for first, _ in scores),
        second=fmean(second for _, second in scores),
        effect=fmean(gains),
        interval=by_t or _interval_without_spread(gains),
        method="student_t" if by_t else "wilson",
        p_value=_t_p_value(gains),
        exact_p_value=_exact_p_value(gains),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def _interval_without_spread(gains: Sequence[float]) -> Interval:
    """Bound the mean of equal measurements: conservative, and never of width 0."""
    gain = gains[0]
    others = wilson_interval(0, len(gains)).high
    return Interval(gain - others * max(0.0, 1 + gain), gain + others * max(0.0, 1 - gain))


def _t_p_value(gains: Sequence[float]) -> float | None:
    if len(gains) < 2 or min(gains) == max(gains):
        return None
    t = fmean(gains) / (stdev(gains) / len(gains) ** 0.5)
    return 2 * student_t_upper_tail(abs(t), len(gains) - 1)


def _exact_p_value(gains: Sequence[float]) -> float | None:
    if sum(gain != 0 for gain in gains) > MAX_EXACT_TASKS:
        return None
    # Under random signs the sum is symmetric around 0, so both tails are equally heavy.
    tail = min(paired_p_value(gains), paired_p_value([-gain for gain in gains]))
    return min(1.0, 2 * tail)

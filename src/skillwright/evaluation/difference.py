"""Difference of two sides on the same tasks, whose attempts are not paired one to one.

Each side's attempts at a task are averaged first; tasks are the independent unit. The interval is
Student's t over the tasks' mean differences, as with clustered standard errors and as in scipy's
``ttest_rel`` on the task means.
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

_EQUAL_DIGITS = 9  # differences are rounded to this many digits
MAX_EXACT_TASKS = 1000  # for more tasks the exact test takes seconds and agrees with Student's t


@dataclass(frozen=True, slots=True)
class PairedDifference(JsonRecord):
    """Difference of the second side's scores from the first's.

    Attributes:
        tasks: Tasks that were compared, at least 1.
        first: Mean over tasks of the first side's scores.
        second: Mean over tasks of the second side's scores.
        effect: ``second - first``.
        interval: 95% confidence interval of the effect.
        method: ``student_t``, or ``wilson`` for differences without variance (all equal, or a
            single task): Wilson's bound on the share of tasks that would differ otherwise, each by
            as much as scores in [0, 1] allow.
        p_value: Two-sided paired t test; ``None`` for differences without variance.
        exact_p_value: Two-sided randomization test, see `paired_p_value`; ``None`` if more than
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
    """Estimate the difference of the second side from the first.

    Args:
        scores: ``(first, second)`` per task, each in [0, 1] and the mean over that side's attempts,
            shape ``[tasks]``. Tasks have equal weights, regardless of their attempts.

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
    """Bound the mean of equal measurements conservatively, with a width above 0."""
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
    # Under random signs the sum is symmetric around 0, so both tails are equal.
    tail = min(paired_p_value(gains), paired_p_value([-gain for gain in gains]))
    return min(1.0, 2 * tail)

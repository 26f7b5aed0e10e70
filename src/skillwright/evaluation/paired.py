"""Paired comparisons: how much better is the second side on the same tasks and seeds?

Tasks are the independent unit: several draws of a task are averaged first.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from skillwright.core import Pair
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.intervals import (
    Interval,
    mean_interval,
    paired_proportion_interval,
)

_DIGITS = 9  # numbers that agree to this many digits are equal
_ROUNDING = 10**-_DIGITS
_MAX_WEIGHT = 10_000  # of all tasks together: it bounds the sums that are counted


@dataclass(frozen=True, slots=True)
class PairedEffect(JsonRecord):
    """The statistics of a set of pairs.

    Attributes:
        gain: Mean gain over tasks, or ``None`` where no pair was scored.
        interval: 95% confidence interval of the gain, or ``None`` where the pairs show no spread.
        p_value: See `paired_p_value`; ``None`` where no pair was scored, or no test was asked for.
        incumbent: The incumbent's mean reward over tasks.
        candidate: The candidate's mean reward over tasks.
        tasks: Tasks with at least one scored pair.
        better: Tasks on which the candidate did better.
        lost: Pairs left out because a side has a Failure.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    gain: float | None
    interval: Interval | None
    p_value: float | None
    incumbent: float | None
    candidate: float | None
    tasks: int
    better: int
    worse: int
    pairs: int
    lost: int


def measure_effect(pairs: Sequence[Pair], *, tests: bool = True) -> PairedEffect:
    """Estimate how much better the candidates of ``pairs`` did than their incumbents.

    Pairs with a Failure are left out and counted. With one draw per task and rewards of 0 and 1
    the interval is Newcombe's, otherwise Student's t over the tasks' mean gains.

    Args:
        pairs: Draws of both sides.
        tests: Also test the gain (`paired_p_value`); without, ``p_value`` is ``None``.
    """
    rewards = _rewards_by_task(pairs)
    scored = sum(len(draws) for draws in rewards.values())
    lost = len(pairs) - scored
    if not rewards:
        return PairedEffect(None, None, None, None, None, 0, 0, 0, 0, lost)
    gains = list(_gains(rewards).values())
    return PairedEffect(
        gain=round(fmean(gains), _DIGITS),
        interval=_gain_interval(rewards, gains),
        p_value=paired_p_value(gains) if tests else None,
        incumbent=fmean(fmean([old for old, _ in draws]) for draws in rewards.values()),
        candidate=fmean(fmean([new for _, new in draws]) for draws in rewards.values()),
        tasks=len(rewards),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        pairs=scored,
        lost=lost,
    )


def task_gains(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the mean gain over the scored draws of each task, by id, in order of first sight."""
    return _gains(_rewards_by_task(pairs))


def by_task_type(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Group pairs by the task type of their task, task types sorted by name."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.candidate.task_type].append(pair)
    return dict(sorted(groups.items()))


def paired_p_value(gains: Sequence[float]) -> float:
    """Test, one-sided, whether gains are more than chance.

    If the candidate changes nothing, each task's gain is as likely to have the opposite sign. The
    p-value is the share of all sign assignments whose sum is at least the observed one: Fisher's
    randomization form of the paired t test. Chance alone has p <= alpha with a chance of at most
    alpha, however few the tasks, also where nearly all tie (three wins among 97 ties: p = 1/8,
    where t says 0.04) and where a few large gains stand among many small ones.

    Graded rewards on many tasks have too many sums to count, so their gains are rounded to whole
    shares first. The promise holds all the same: the sign of a share is as much a coin toss.

    Args:
        gains: Mean gain per task, shape ``[tasks]``; tasks are independent.

    Returns:
        A probability in (0, 1]; 1 where no gain differs from 0.

    Source: R. A. Fisher, The Design of Experiments (1935), section 21.
    """
    moved = [gain for gain in gains if abs(gain) >= _ROUNDING]
    if not moved:
        return 1.0
    weights = _whole_weights([abs(gain) for gain in moved])
    observed = sum(weight for weight, gain in zip(weights, moved, strict=True) if gain > 0)
    return float(_share_as_large(weights, observed))


def _share_as_large(weights: Sequence[int], observed: int) -> Fraction:
    """Return the share of sign assignments whose positive weights sum to ``observed`` or more.

    Digit s of one long number counts the assignments whose positive weights sum to s. A digit is
    wide enough for all assignments together, so none ever carries into the next.
    """
    bits = 8 * (len(weights) // 8 + 1)
    counts = 1
    for weight in weights:
        counts += counts << weight * bits
    # The remainder of a division by "all nines" is the sum of the digits.
    as_large = (counts >> observed * bits) % ((1 << bits) - 1)
    return Fraction(as_large, 2 ** len(weights))


def _whole_weights(sizes: Sequence[float]) -> list[int]:
    """Return whole numbers in the proportion of positive sizes: exactly where they stay small."""
    shares = [Fraction(size / max(sizes)).limit_denominator(_MAX_WEIGHT) for size in sizes]
    common = Fraction(1, math.lcm(*(share.denominator for share in shares)))
    finest = sum(shares, start=Fraction()) / _MAX_WEIGHT
    return [round(share / max(common, finest)) for share in shares]


def _rewards_by_task(pairs: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """Collect ``(incumbent, candidate)`` rewards of the scored pairs, in order of first sight."""
    rewards: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if old is not None and new is not None:
            rewards[pair.task_id].append((old, new))
    return dict(rewards)


def _gains(rewards: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, float]:
    # Rounded, so that what differs only by how floats round is a tie.
    return {
        task: round(fmean([new - old for old, new in draws]), _DIGITS)
        for task, draws in rewards.items()
    }


def _gain_interval(
    rewards: Mapping[str, Sequence[tuple[float, float]]], gains: Sequence[float]
) -> Interval | None:
    draws = [draw for task in rewards.values() for draw in task]
    one_draw_each = len(draws) == len(rewards)
    if one_draw_each and all(reward in (0, 1) for draw in draws for reward in draw):
        return paired_proportion_interval([(old == 1, new == 1) for old, new in draws])
    return mean_interval(gains)

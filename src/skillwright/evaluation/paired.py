"""Two sides on the same tasks with the same luck: how much better is the second?

Tasks are the independent unit. Several draws of a task are averaged first, so that they sharpen
the task's own difference without pretending to be more tasks.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from skillwright.core import Pair
from skillwright.core.codec import REFUSE_UNKNOWN, JsonRecord
from skillwright.evaluation.intervals import (
    Interval,
    mean_interval,
    paired_proportion_interval,
)

_DIGITS = 9  # numbers that agree to so many digits are the same number, up to rounding
_ROUNDING = 10**-_DIGITS
_MAX_WEIGHT = 10_000  # of all tasks together: it bounds the sums that are counted


@dataclass(frozen=True, slots=True)
class PairedEffect(JsonRecord):
    """What a set of pairs says about the candidate.

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


def by_family(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Group pairs by the family of their task, families sorted by name."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.candidate.task_type].append(pair)
    return dict(sorted(groups.items()))


def paired_p_value(gains: Sequence[float]) -> float:
    """Test, one-sided, whether gains are more than luck.

    If the candidate changes nothing, each task's gain is as likely to have the opposite sign. The
    p-value is the share of all sign assignments whose sum is at least the observed one: Fisher's
    randomisation form of the paired t test. Luck alone has p <= alpha with a chance of at most
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
    sums = SignSums(len(weights))
    sums.add(weight if gain > 0 else -weight for weight, gain in zip(weights, moved, strict=True))
    return float(sums.as_large())


class SignSums:
    """How many sign assignments lead to each sum of positive gains, those cut off not counted.

    Digit s of a big number counts the assignments whose positive gains add up to s; a digit is
    wide enough for all assignments together, so none ever carries into the next.
    """

    def __init__(self, tasks: int) -> None:
        self._bytes = tasks // 8 + 1
        self._counts = 1
        self._assignments = 1
        self._observed = 0

    def add(self, gains: Iterable[int]) -> None:
        """Let each gain have either sign from now on."""
        for gain in gains:
            if gain:
                self._counts += self._counts << abs(gain) * self._bytes * 8
                self._assignments *= 2
                self._observed += max(gain, 0)

    def as_large(self) -> Fraction:
        """Return the share of assignments with at least the observed sum."""
        rest = self._counts >> self._observed * self._bytes * 8
        # The rest on division by "all nines" is the sum of the digits.
        return Fraction(rest % ((1 << self._bytes * 8) - 1), self._assignments)

    def cut(self, limit: Fraction) -> Fraction:
        """Cut off the largest sums, as many as have at most the share ``limit``; return it."""
        most, cut = limit * self._assignments, 0
        length = -(-self._counts.bit_length() // (8 * self._bytes))
        body = self._counts.to_bytes(length * self._bytes, "big")
        kept = length
        while kept:
            start = (length - kept) * self._bytes
            count = int.from_bytes(body[start : start + self._bytes], "big")
            if cut + count > most:
                break
            cut, kept = cut + count, kept - 1
        self._counts &= (1 << kept * self._bytes * 8) - 1
        return Fraction(cut, self._assignments)


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

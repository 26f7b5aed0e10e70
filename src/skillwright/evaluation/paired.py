"""Paired comparison of two sides on the same tasks and seeds.

Tasks are the independent unit: several draws of a task are averaged first. Tasks of one cluster,
such as near copies, depend on each other; then clusters are the unit (`cluster_means`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from skillwright.core import Pair
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.datasets.clusters import clusters_of
from skillwright.evaluation.intervals import Interval, mean_interval, paired_proportion_interval

_DIGITS = 9  # gains are rounded to this many digits
_ROUNDING = 10**-_DIGITS
_MAX_WEIGHT = 10_000  # maximum sum of the whole weights of all tasks, which limits the work


@dataclass(frozen=True, slots=True)
class PairedEffect(JsonRecord):
    """The statistics of a set of pairs.

    Attributes:
        gain: Mean gain over clusters, and so over tasks without near copies; ``None`` without
            scored pairs.
        interval: 95% confidence interval of the gain; ``None`` if the pairs have no variance.
        p_value: See `paired_p_value`; ``None`` without scored pairs or without a test.
        incumbent: The incumbent's mean reward over clusters.
        candidate: The candidate's mean reward over clusters.
        tasks: Tasks with at least one scored pair.
        clusters: Clusters of these tasks; without near copies, as many as tasks.
        better: Tasks on which the candidate did better.
        worse: Tasks on which it did worse.
        pairs: Scored pairs.
        lost: Pairs left out because of a failure.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    gain: float | None
    interval: Interval | None
    p_value: float | None
    incumbent: float | None
    candidate: float | None
    tasks: int
    clusters: int
    better: int
    worse: int
    pairs: int
    lost: int


def measure_effect(
    pairs: Sequence[Pair], clusters: Mapping[str, str] | None = None, *, tests: bool = True
) -> PairedEffect:
    """Estimate the gain of the candidates of ``pairs`` over their incumbents.

    Pairs with a failure are left out and counted. With one draw per task and rewards of 0 and 1
    the interval is Newcombe's, otherwise Student's t over the tasks' mean gains, or over those of
    the clusters if some have several tasks.

    Args:
        pairs: Draws of both sides.
        clusters: Cluster by task id, by default those that the tasks name; tasks without one are
            independent.
        tests: Compute the p-value (`paired_p_value`); if false, it is ``None``.
    """
    rewards = _rewards_by_task(pairs)
    scored = sum(len(draws) for draws in rewards.values())
    lost = len(pairs) - scored
    if not rewards:
        return PairedEffect(None, None, None, None, None, 0, 0, 0, 0, 0, lost)
    clusters = clusters_in(pairs) if clusters is None else clusters
    by_task = _gains(rewards)
    gains = list(cluster_means(by_task, clusters).values())
    is_clustered = len(gains) < len(by_task)
    return PairedEffect(
        gain=round(fmean(gains), _DIGITS),
        interval=mean_interval(gains) if is_clustered else _gain_interval(rewards, gains),
        p_value=paired_p_value(gains) if tests else None,
        incumbent=_mean_score(rewards, 0, clusters),
        candidate=_mean_score(rewards, 1, clusters),
        tasks=len(rewards),
        clusters=len(gains),
        better=sum(gain > 0 for gain in by_task.values()),
        worse=sum(gain < 0 for gain in by_task.values()),
        pairs=scored,
        lost=lost,
    )


def task_gains(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return each task's mean gain over its scored draws, by id, in order of appearance."""
    return _gains(_rewards_by_task(pairs))


def clusters_in(pairs: Iterable[Pair]) -> dict[str, str]:
    """Return the cluster of each task of ``pairs`` that names one, by id."""
    return clusters_of(pair.candidate.spec.task for pair in pairs)


def cluster_means(values: Mapping[str, float], clusters: Mapping[str, str]) -> dict[str, float]:
    """Return the mean of each cluster's values, in order of appearance.

    Tasks that say nearly the same gain or lose together. So each cluster counts once, however many
    tasks it has: a mean of means, tests that flip one sign per cluster, bounds on values in the
    range of a task's.

    Args:
        values: By task id.
        clusters: Cluster by task id; a task without one is a cluster of its own.
    """
    members: defaultdict[str, list[float]] = defaultdict(list)
    for task_id, value in values.items():
        members[clusters.get(task_id, task_id)].append(value)
    return {name: fmean(found) for name, found in members.items()}


def by_task_type(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Group pairs by task type, sorted by name."""
    groups: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.candidate.task_type].append(pair)
    return dict(sorted(groups.items()))


def paired_p_value(gains: Sequence[float]) -> float:
    """Test, one-sided, whether gains are more than chance, by Fisher's randomization test.

    If the candidate has no effect, each task's gain is equally likely to have the opposite sign.
    The p-value is the share of all sign assignments whose sum is at least the observed one. The
    test is exact for any number of tasks and any distribution of gains: for three wins among 97
    ties p = 1/8, where a t test has 0.04.

    Graded rewards on many tasks have too many possible sums, so gains are rounded to integer
    weights. The test stays valid, because the signs of the weights are still random.

    Args:
        gains: Mean gain per task, shape ``[tasks]``; tasks are independent.

    Returns:
        A probability in (0, 1]; 1 if all gains are 0.

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

    Digit s of one large integer counts the assignments whose positive weights sum to s. Digits
    have enough bits for the number of all assignments, so that none overflows.
    """
    bits = 8 * (len(weights) // 8 + 1)
    counts = 1
    for weight in weights:
        counts += counts << weight * bits
    # A number modulo its base minus 1 is the sum of its digits.
    as_large = (counts >> observed * bits) % ((1 << bits) - 1)
    return Fraction(as_large, 2 ** len(weights))


def _whole_weights(sizes: Sequence[float]) -> list[int]:
    """Scale positive sizes to integers with a bounded sum: exactly if possible, else rounded."""
    shares = [Fraction(size / max(sizes)).limit_denominator(_MAX_WEIGHT) for size in sizes]
    common = Fraction(1, math.lcm(*(share.denominator for share in shares)))
    finest = sum(shares, start=Fraction()) / _MAX_WEIGHT
    return [round(share / max(common, finest)) for share in shares]


def _rewards_by_task(pairs: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """Collect ``(incumbent, candidate)`` rewards of the scored pairs by task."""
    rewards: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if old is not None and new is not None:
            rewards[pair.task_id].append((old, new))
    return dict(rewards)


def _gains(rewards: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, float]:
    # Rounded, so that floating-point errors do not break ties.
    return {
        task: round(fmean([new - old for old, new in draws]), _DIGITS)
        for task, draws in rewards.items()
    }


def _mean_score(
    rewards: Mapping[str, Sequence[tuple[float, float]]], side: int, clusters: Mapping[str, str]
) -> float:
    means = {task: fmean([draw[side] for draw in draws]) for task, draws in rewards.items()}
    return fmean(cluster_means(means, clusters).values())


def _gain_interval(
    rewards: Mapping[str, Sequence[tuple[float, float]]], gains: Sequence[float]
) -> Interval | None:
    draws = [draw for task in rewards.values() for draw in task]
    one_draw_each = len(draws) == len(rewards)
    if one_draw_each and all(reward in (0, 1) for draw in draws for reward in draw):
        return paired_proportion_interval([(old == 1, new == 1) for old, new in draws])
    return mean_interval(gains)

"""Confidence intervals and pass^k, with the standard library alone."""

import math
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

DEFAULT_CONFIDENCE = 0.95

_CONVERGED = 1e-15
_MAX_TERMS = 500
_TINY = 1e-300  # replaces 0 in a denominator of the continued fraction


class Interval(NamedTuple):
    """A two-sided confidence interval, in the units of the measurement."""

    low: float
    high: float


def points(gain: float) -> str:
    """Write a gain in [-1, 1], of tasks solved or of reward, in points: hundredths, with a sign."""
    return f"{round(100 * gain, 1) + 0.0:+.1f}"


def points_range(interval: tuple[float, float]) -> str:
    """Write the interval of a gain in points."""
    return f"{points(interval[0])} to {points(interval[1])}"


def gain_text(gain: float, interval: tuple[float, float] | None = None) -> str:
    """Write a gain for people, with its 95% interval: ``+12.0 points (95%: +4.1 to +19.9)``."""
    bounds = "" if interval is None else f" (95%: {points_range(interval)})"
    return f"{points(gain)} points{bounds}"


def normal_quantile(p: float) -> float:
    """Return the standard normal quantile of ``p``, strictly between 0 and 1."""
    _check_probability(p)
    return NormalDist().inv_cdf(p)


def student_t_upper_tail(t: float, df: float) -> float:
    """Return P(T >= ``t``) for Student's t with ``df`` > 0, to 8 digits or more."""
    if not df > 0:
        raise ValueError(f"df is {df}; degrees of freedom are positive")
    tail = 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))
    return tail if t >= 0 else 1 - tail


@lru_cache(maxsize=1024)
def student_t_quantile(p: float, df: float) -> float:
    """Return the quantile of ``p`` for Student's t with ``df`` > 0."""
    _check_probability(p)
    if p < 0.5:
        return -student_t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while student_t_upper_tail(high, df) > 1 - p:
        low, high = high, 2 * high
    while high - low > 1e-13 * max(1.0, high):
        middle = (low + high) / 2
        if student_t_upper_tail(middle, df) > 1 - p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def wilson_interval(
    successes: float, trials: float, confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Estimate a proportion; valid near 0 and 1 and for few trials, too.

    Args:
        successes: In ``[0, trials]``. Fractions are allowed, for an effective sample size.
        trials: Positive.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        Bounds within [0, 1].

    Raises:
        ValueError: An argument is outside its range.

    Source: E. B. Wilson, JASA 22 (1927) 209-212.
    """
    if not 0 <= successes <= trials or trials <= 0:
        raise ValueError(f"{successes} successes in {trials} trials is no proportion")
    z = normal_quantile((1 + confidence) / 2)
    share = successes / trials
    center = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = (center - half) / scale if successes > 0 else 0.0
    high = (center + half) / scale if successes < trials else 1.0
    return Interval(low, high)


def clustered_wilson_interval(
    counts: Sequence[tuple[float, int]], confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Estimate a success rate from several attempts at each of several tasks.

    Attempts at one task are correlated. So this is Wilson's interval at the effective sample size,
    which lies between the numbers of tasks and attempts and is corrected for few tasks. With one
    attempt per task it equals Wilson's interval.

    Args:
        counts: ``(successes, attempts)`` per task, shape ``[tasks]``, with attempts >= 1; a sum
            of smoothed successes may have a fraction.
        confidence: Coverage, strictly between 0 and 1.

    Raises:
        ValueError: No tasks, or a count outside its range.

    Source: E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193-201.
    """
    attempts = sum(n for _, n in counts)
    if any(not 0 <= c <= n for c, n in counts) or attempts == 0:
        raise ValueError(f"no proportion can be taken from {list(counts)[:5]}")
    rate = math.fsum(c for c, _ in counts) / attempts
    tasks = len(counts)
    effective = float(tasks)
    if tasks > 1 and attempts > tasks and 0 < rate < 1:
        residuals = sum((c - rate * n) ** 2 for c, n in counts)
        variance = residuals / attempts**2 * tasks / (tasks - 1)
        effective = rate * (1 - rate) / variance if variance else float(attempts)
        p = (1 + confidence) / 2
        effective *= (student_t_quantile(p, attempts - 1) / student_t_quantile(p, tasks - 1)) ** 2
        effective = min(max(effective, tasks), attempts)
    return wilson_interval(rate * effective, effective, confidence)


def mean_interval(
    values: Sequence[float], confidence: float = DEFAULT_CONFIDENCE
) -> Interval | None:
    """Estimate a mean by Student's t.

    Args:
        values: Independent measurements, shape ``[n]``.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        ``None`` for fewer than two values, or if all are equal, because there is no variance.
    """
    if len(values) < 2 or min(values) == max(values):
        return None
    t = student_t_quantile((1 + confidence) / 2, len(values) - 1)
    mean, half = fmean(values), t * stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean + half)


# Bets as a share of the stake, with their weights. The largest bet has most of the weight, because
# it is the informative one for values that hardly vary.
_BETS = ((1.0, 0.75), (0.5, 0.0625), (0.25, 0.0625), (0.125, 0.0625), (0.0625, 0.0625))


def bounded_mean_interval(
    values: Sequence[float], low: float, high: float, confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Estimate a mean of values in a known range, valid for any distribution.

    Unlike Student's t it is valid for few or equal values, too, because it accounts for rare large
    values that were not observed. A mean is excluded if bets against it would have multiplied
    their stake by ``2 / (1 - confidence)``, which has at most the inverse probability.

    Args:
        values: Independent measurements, shape ``[n]``; without any, the range is returned.
        low: Minimum of a value.
        high: Maximum of a value.
        confidence: Coverage, strictly between 0 and 1; the error is split equally on both sides.

    Raises:
        ValueError: A value or ``confidence`` is outside its range.

    Source: I. Waudby-Smith and A. Ramdas, Journal of the Royal Statistical Society B 86 (2024)
    1-27; here with a fixed mixture of bets, so that the order of the values does not matter.
    """
    _check_probability(confidence)
    if values and not low <= min(values) <= max(values) <= high:
        raise ValueError(f"values from {min(values)} to {max(values)} are outside [{low}, {high}]")
    tail = (1 - confidence) / 2
    below = _largest_mean([-value for value in values], -high, -low, tail)
    return Interval(-below, _largest_mean(values, low, high, tail))


def _largest_mean(values: Sequence[float], low: float, high: float, tail: float) -> float:
    """Return the largest mean that is not refuted by bets on smaller values, by bisection."""
    refuted = high
    for _ in range(40):  # halves the range each time
        middle = (low + refuted) / 2
        if _logarithm_of_winnings(values, middle, high) >= -math.log(tail):
            refuted = middle
        else:
            low = middle
    return refuted


def _logarithm_of_winnings(values: Sequence[float], mean: float, high: float) -> float:
    if mean >= high:
        return math.inf
    shares = [(mean - value) / (high - mean) for value in values]  # -1 where all is lost
    logs = []
    for bet, stake in _BETS:
        if all(bet * share > -1 for share in shares):
            logs.append(math.log(stake) + math.fsum(math.log1p(bet * one) for one in shares))
    most = max(logs, default=-math.inf)
    return most + math.log(sum(math.exp(one - most) for one in logs)) if logs else most


# Prior weight and variance of the values, for the first bets, and the cap on bets, which keeps a
# tenth of the stake. All three were chosen by simulated power.
_PRIOR_VALUES = 8
_PRIOR_VARIANCE = 0.08
_MOST_OF_A_STAKE = 0.9


def mean_above_p_value(values: Sequence[float], mean: float) -> float:
    """Test, one-sided, whether the mean of values in [-1, 1] is above ``mean``.

    It is valid for any number of values and any distribution: if the true mean is ``mean`` or less,
    P(p <= alpha) is at most alpha. Bets are made on one value after another, with sizes based on
    the previous values; the p-value is the inverse of the largest wealth reached from a stake of 1
    (Ville's inequality).

    Args:
        values: Independent measurements in [-1, 1], shape ``[n]``, in an order that does not depend
            on them. The p-value depends on the order, and is valid for each.
        mean: In (-1, 1).

    Returns:
        A probability in (0, 1]; 1 without values.

    Source: I. Waudby-Smith and A. Ramdas, Journal of the Royal Statistical Society B 86 (2024)
    1-27, section 3 and "aGRAPA" for the bets.
    """
    wealth = most = total = squares = 0.0
    cap = _MOST_OF_A_STAKE / (1 + mean)
    for seen, value in enumerate(values):
        weight = seen + _PRIOR_VALUES
        center = total / weight
        variance = (squares + _PRIOR_VALUES * _PRIOR_VARIANCE) / weight - center * center
        gain = center - mean
        bet = min(max(gain / (variance + gain * gain), 0.0), cap)
        wealth += math.log1p(bet * (value - mean))
        most = max(most, wealth)
        total, squares = total + value, squares + value * value
    return math.exp(-most)


def paired_proportion_interval(
    pairs: Sequence[tuple[bool, bool]], confidence: float = DEFAULT_CONFIDENCE
) -> Interval:
    """Estimate the difference of two success rates that were measured on the same tasks.

    Args:
        pairs: ``(first succeeded, second succeeded)`` per task, shape ``[tasks]``, not empty.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        Bounds, within [-1, 1], on the second rate minus the first; valid without any differing
        task, too.

    Raises:
        ValueError: There are no pairs.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 2635-2650, method 10.
    """
    n = len(pairs)
    second, first = sum(b for _, b in pairs), sum(a for a, _ in pairs)
    low_2, high_2 = wilson_interval(second, n, confidence)
    low_1, high_1 = wilson_interval(first, n, confidence)
    p2, p1 = second / n, first / n
    phi = _paired_correlation(pairs)
    below = _hypotenuse(p2 - low_2, high_1 - p1, phi)
    above = _hypotenuse(high_2 - p2, p1 - low_1, phi)
    return Interval(max(-1.0, p2 - p1 - below), min(1.0, p2 - p1 + above))


def _paired_correlation(pairs: Sequence[tuple[bool, bool]]) -> float:
    n = len(pairs)
    both = sum(a and b for a, b in pairs)
    first, second = sum(a for a, _ in pairs), sum(b for _, b in pairs)
    margins = first * (n - first) * second * (n - second)
    if margins == 0:
        return 0.0
    product = float(both * n - first * second)  # = both * neither - only_first * only_second
    if product > 0:
        product = max(product - n / 2, 0.0)  # Newcombe's continuity correction
    return product / math.sqrt(margins)


def _hypotenuse(a: float, b: float, correlation: float) -> float:
    return math.sqrt(max(0.0, a * a - 2 * correlation * a * b + b * b))


def _check_probability(p: float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"{p} is not strictly between 0 and 1")


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), where ``y`` is 1 - x exactly."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log(y))
    # The fraction converges quickly only on this side of the mean; the other side is symmetric.
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, y) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of I_x(a, b) by Lentz's method.

    Source: NIST Digital Library of Mathematical Functions, 8.17.22.
    """
    c = 1.0
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _CONVERGED:
            break
    return value


def _nonzero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def pass_hat_k(successes: Sequence[int], trials: int, k: int) -> float:
    """Estimate pass^k: the probability that ``k`` fresh attempts at a task all succeed.

    Args:
        successes: Success count per task, shape ``[tasks]``, each in ``0..trials``.
        trials: Scored attempts per task, without failed ones.
        k: Attempts that must all succeed, in ``1..trials``.

    Returns:
        A probability in [0, 1], averaged over tasks; unbiased per task.

    Raises:
        ValueError: No tasks, ``k`` outside ``1..trials``, or a count outside ``0..trials``.

    Source: tau-bench (arXiv:2406.12045); ``display_metrics`` in its ``tau_bench/run.py``.
    """
    return fmean(_chances(successes, trials, k))


def pass_hat_k_interval(successes: Sequence[int], trials: int, k: int) -> Interval:
    """Return the 95% confidence interval of `pass_hat_k`, with the same arguments and errors.

    It is the `clustered_wilson_interval` of the tasks' estimated probabilities as smoothed
    successes. With ``k = 1`` it is the interval of the success rate.
    """
    chances = _chances(successes, trials, k)
    return clustered_wilson_interval([(chance * trials, trials) for chance in chances])


def _chances(successes: Sequence[int], trials: int, k: int) -> list[float]:
    """Estimate for each task the probability that ``k`` attempts all succeed."""
    if not successes:
        raise ValueError("pass^k of no tasks; score at least one")
    if not 1 <= k <= trials:
        raise ValueError(f"pass^{k} of {trials} trials; k must be in 1..{trials}")
    wrong = [count for count in successes if not 0 <= count <= trials]
    if wrong:
        raise ValueError(f"{wrong[0]} successes in {trials} trials; drop faulted attempts first")
    return [comb(count, k) / comb(trials, k) for count in successes]

"""How reliably an agent does a task: pass@1 and pass^k."""

from collections.abc import Sequence
from math import comb
from statistics import fmean

from skillwright.evaluation.intervals import Interval, clustered_wilson_interval


def pass_hat_k(successes: Sequence[int], trials: int, k: int) -> float:
    """Estimate pass^k: the chance that ``k`` fresh attempts at a task all succeed.

    Args:
        successes: Success count per task, shape ``[tasks]``, each in ``0..trials``.
        trials: Scored attempts per task. Drop faulted attempts first; they are not zeros.
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

    The tasks are the sample: attempts at one task are alike, so they narrow it only as far as the
    tasks' own chances differ less than all-or-nothing would. With ``k = 1`` it is the interval of
    the success rate.

    Source: `clustered_wilson_interval`, on each task's chance as a smoothed count of successes.
    """
    chances = _chances(successes, trials, k)
    return clustered_wilson_interval([(chance * trials, trials) for chance in chances])


def _chances(successes: Sequence[int], trials: int, k: int) -> list[float]:
    """Return each task's own estimate of the chance that ``k`` attempts all succeed."""
    if not successes:
        raise ValueError("pass^k of no tasks; score at least one")
    if not 1 <= k <= trials:
        raise ValueError(f"pass^{k} of {trials} trials; k must be in 1..{trials}")
    wrong = [count for count in successes if not 0 <= count <= trials]
    if wrong:
        raise ValueError(f"{wrong[0]} successes in {trials} trials; drop faulted attempts first")
    return [comb(count, k) / comb(trials, k) for count in successes]


def pass_at_1(successes: Sequence[int], trials: int) -> float:
    """Estimate pass@1: the chance that one fresh attempt at a task succeeds.

    Arguments, range and errors are those of `pass_hat_k` with ``k = 1``, which it equals.
    """
    return pass_hat_k(successes, trials, k=1)

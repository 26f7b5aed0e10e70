"""How reliably an agent does a task: pass@1 and pass^k."""

from collections.abc import Sequence
from math import comb
from statistics import fmean


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
    if not successes:
        raise ValueError("pass^k of no tasks; score at least one")
    if not 1 <= k <= trials:
        raise ValueError(f"pass^{k} of {trials} trials; k must be in 1..{trials}")
    wrong = [count for count in successes if not 0 <= count <= trials]
    if wrong:
        raise ValueError(f"{wrong[0]} successes in {trials} trials; drop faulted attempts first")
    return fmean(comb(count, k) / comb(trials, k) for count in successes)


def pass_at_1(successes: Sequence[int], trials: int) -> float:
    """Estimate pass@1: the chance that one fresh attempt at a task succeeds.

    Arguments, range and errors are those of `pass_hat_k` with ``k = 1``, which it equals.
    """
    return pass_hat_k(successes, trials, k=1)

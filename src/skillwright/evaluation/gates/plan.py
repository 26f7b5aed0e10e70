"""When a run with a budget should stop taking steps and test its release.

Testing early proves a small gain; testing late leaves no rollouts for the test. So the expected
proven gain of a test now is compared with that of a test after further steps.
"""

from dataclasses import dataclass
from math import exp, sqrt
from statistics import NormalDist
from typing import Final

from skillwright.evaluation.gates.current import CurrentSkill

LEAST_PAIRS: Final = 50
"""Pairs with which a release test begins, or one per task if there are fewer."""

MISFIT: Final = 0.15
"""Share of the gain that the belief may be wrong by."""

_STEPS_AHEAD: Final = (1, 2, 3, 5, 8, 12)
_FEWER_PAIRS: Final = 20
_NODES: Final = (-1.5, -0.75, 0.0, 0.75, 1.5)
_NORMAL: Final = NormalDist()
_QUANTILE: Final = _NORMAL.inv_cdf(0.95)
_UNEVENNESS: Final = 0.75  # variance between tasks per unit of gain: edits help some tasks only


def held_back(tasks: int, budget: int | None = None) -> int:
    """Return the rollouts that are held back for the release test on ``tasks`` val tasks.

    They pay for one draw of each task and side, and for a second one from a quarter of the
    ``budget``: one draw often does not prove a gain that two do. What the test leaves goes back to
    steps.
    """
    least = 2 * min(tasks, LEAST_PAIRS)
    return min(2 * least, max(least, (budget or 0) // 4))


@dataclass(frozen=True, slots=True)
class Spending:
    """What is left of a run's budget, in rollouts.

    Attributes:
        left: Rollouts left, without those of the sealed test.
        step: Mean rollouts of a step so far, its gate included.
        step_cost: What it costs to propose a candidate; see `Terms.step_cost`.
    """

    left: float
    step: float
    step_cost: float


def proven_gain(current: CurrentSkill, gain: float, pairs: float) -> float:
    """Return the expected proven gain of a release test.

    Args:
        current: What is known about the current skill, for the noise and the doubt about the gain.
        gain: The expected gain of the tested skill.
        pairs: Pairs of draws that the test can make.
    """
    belief, tasks = current.belief, len(current.task_ids)
    if gain <= 0 or pairs < min(tasks, LEAST_PAIRS):
        return 0.0
    doubt = sqrt(belief.variance + (MISFIT * belief.gained) ** 2)
    chances = [exp(-node * node / 2) for node in _NODES]
    value = 0.0
    for node, chance in zip(_NODES, chances, strict=True):
        true = gain + doubt * node
        between = max(_UNEVENNESS * abs(true) - true * true, 0.02)
        error = sqrt(belief.within / pairs + between / min(pairs, tasks))
        value += chance * true * _NORMAL.cdf(true / error - _QUANTILE)
    return max(value / sum(chances), 0.0)


def price_before_test(current: CurrentSkill, left: float, step_cost: float) -> float:
    """Return what a rollout is worth before a release test, in gain.

    It is what it brings in a further step, or what it adds to the expected proven gain of the test.

    Args:
        current: What is known about the current skill.
        left: Rollouts left for the test.
        step_cost: See `Spending`.
    """
    gain, pairs = current.belief.gained, left / 2
    less = proven_gain(current, gain, pairs) - proven_gain(current, gain, pairs - _FEWER_PAIRS)
    return max(current.belief.price(step_cost), less / (2 * _FEWER_PAIRS))


def is_time_to_test(current: CurrentSkill, spending: Spending, *, is_last: bool) -> bool:
    """Tell whether a run should test its release now.

    Args:
        current: What is known about the current skill.
        spending: What is left of the budget.
        is_last: Whether no further step fits into the budget.
    """
    belief, left = current.belief, spending.left
    if left / 2 < min(len(current.task_ids), LEAST_PAIRS):
        return False
    if is_last:
        return True
    each = spending.step * belief.price(spending.step_cost)
    later = max(
        proven_gain(current, belief.gained + n * each, (left - n * spending.step) / 2)
        for n in _STEPS_AHEAD
    )
    return proven_gain(current, belief.gained, left / 2) >= later

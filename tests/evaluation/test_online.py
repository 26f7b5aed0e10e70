"""One error budget over all release tests: levels that never add up to more than is allowed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.evaluation import Decision, ErrorBudget, Verdict


def after(alpha, outcomes):
    budget = ErrorBudget(alpha)
    for released in outcomes:
        budget = ErrorBudget(
            alpha, (*budget.levels, budget.level), (*budget.released, bool(released))
        )
    return budget


@given(st.floats(0.001, 0.49), st.lists(st.booleans(), max_size=60))
def test_levels_never_add_up_to_more_than_alpha_times_the_releases(alpha, outcomes):
    budget = after(alpha, outcomes)
    allowed = alpha * max(1, sum(outcomes))
    assert sum(budget.levels) + budget.level <= allowed * (1 + 1e-12)
    assert budget.left == pytest.approx(allowed - sum(budget.levels), abs=1e-12)
    assert budget.level > 0


@given(st.lists(st.booleans(), max_size=30))
def test_a_release_never_lowers_the_next_level_and_a_failure_never_raises_it(outcomes):
    budget = after(0.05, outcomes)
    assert after(0.05, [*outcomes, True]).level >= after(0.05, [*outcomes, False]).level
    assert after(0.05, [*outcomes, False]).level <= budget.level


def test_levels_of_a_failing_bank_fall_and_a_second_release_earns_them_back():
    failing = after(0.05, [False] * 5)
    assert failing.levels == pytest.approx([0.02187, 0.00722, 0.00377, 0.00238, 0.00167], abs=1e-5)
    assert after(0.05, [False, True, False, True]).level > 0.02


def test_a_lowered_alpha_takes_what_earlier_tests_spent_into_account():
    spent = after(0.4, [False] * 3)
    lowered = ErrorBudget(0.05, spent.levels, spent.released)
    assert (lowered.level, lowered.left) == (0, 0)


def test_the_budget_is_rebuilt_from_stored_verdicts_that_had_a_test():
    verdicts = [
        None,
        Verdict(Decision.REJECT, "no", alpha=0.02).to_dict(),
        Verdict(Decision.REJECT, "a step without a test").to_dict(),
        Verdict(Decision.ACCEPT, "yes", alpha=0.007).to_dict(),
    ]
    assert ErrorBudget.after(0.05, verdicts) == ErrorBudget(0.05, (0.02, 0.007), (False, True))


def test_a_verdict_says_its_level_and_what_is_left():
    budget = after(0.05, [False])
    verdict = Verdict(Decision.REJECT, "Not proven better.", alpha=budget.level)
    assert budget.explained(verdict).reason == (
        "Not proven better. This was release test 2 of an error budget that all of them share, at "
        "level 0.0072; 0.021 is left of it (alpha 0.05)."
    )
    untested = Verdict(Decision.REJECT, "Too few.")
    assert budget.explained(untested) is untested


def test_of_independent_tests_without_a_gain_few_are_released_and_of_good_ones_many():
    random = np.random.default_rng(5)
    shares, found, good = [], 0, 0
    for _ in range(60):
        is_good = random.random(100) < 0.3
        p_values = np.where(is_good, random.random(100) ** 6, random.random(100))
        budget = ErrorBudget(0.05)
        for p_value in p_values:
            budget = ErrorBudget(
                0.05,
                (*budget.levels, budget.level),
                (*budget.released, bool(p_value <= budget.level)),
            )
        released = np.array(budget.released)
        shares.append((released & ~is_good).sum() / max(1, released.sum()))
        found, good = found + (released & is_good).sum(), good + is_good.sum()
    assert np.mean(shares) <= 0.05
    assert found / good > 0.3

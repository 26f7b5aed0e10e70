"""Intervals of pass^k: the tasks are the sample, however often each was attempted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.evaluation import (
    clustered_wilson_interval,
    pass_hat_k,
    pass_hat_k_interval,
    wilson_interval,
)

COUNTS = st.lists(st.integers(0, 4), min_size=2, max_size=40)


@given(COUNTS, st.integers(1, 4))
def test_the_estimate_lies_in_its_interval(successes, k):
    low, high = pass_hat_k_interval(successes, 4, k)
    assert 0 <= low <= pass_hat_k(successes, 4, k) + 1e-12
    assert pass_hat_k(successes, 4, k) <= high + 1e-12 <= 1 + 1e-9


@given(COUNTS)
def test_pass_1_has_the_interval_of_the_success_rate(successes):
    expected = clustered_wilson_interval([(count, 4) for count in successes])
    assert pass_hat_k_interval(successes, 4, 1) == pytest.approx(expected)


@given(COUNTS)
def test_all_attempts_in_a_row_are_one_draw_per_task(successes):
    whole = sum(count == 4 for count in successes)
    expected = wilson_interval(whole, len(successes))
    assert pass_hat_k_interval(successes, 4, 4) == pytest.approx(expected)


def test_more_attempts_at_the_same_tasks_narrow_it_only_where_tasks_are_alike():
    alike = pass_hat_k_interval([2] * 20, 4, 1)
    unlike = pass_hat_k_interval([0, 4] * 10, 4, 1)
    assert alike.high - alike.low < unlike.high - unlike.low


def test_it_refuses_what_pass_k_refuses():
    with pytest.raises(ValueError, match="no tasks"):
        pass_hat_k_interval([], 4, 1)
    with pytest.raises(ValueError, match=r"pass\^5 of 4"):
        pass_hat_k_interval([1], 4, 5)

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.evaluation import pass_hat_k


def test_pass_hat_k_is_the_share_of_k_subsets_that_all_succeed():
    attempts = {"a": [1, 1, 0, 1], "b": [0, 1, 0, 1], "c": [1, 1, 1, 1]}
    expected = fmean(fmean(all(s) for s in combinations(row, 2)) for row in attempts.values())
    assert pass_hat_k([sum(row) for row in attempts.values()], trials=4, k=2) == expected


@given(st.lists(st.integers(0, 8), min_size=1), st.integers(1, 7))
def test_pass_hat_k_never_rises_with_k(successes, k):
    assert pass_hat_k(successes, trials=8, k=k + 1) <= pass_hat_k(successes, trials=8, k=k)


@given(st.lists(st.integers(0, 5), min_size=1))
def test_pass_hat_1_is_the_mean_success_rate(successes):
    assert pass_hat_k(successes, trials=5, k=1) == pytest.approx(fmean(successes) / 5)


@pytest.mark.parametrize(
    ("successes", "trials", "k", "words"),
    [
        ([], 4, 1, "no tasks"),
        ([1], 4, 5, r"1\.\.4"),
        ([1], 4, 0, r"1\.\.4"),
        ([5], 4, 1, "5 successes in 4 trials"),
        ([-1], 4, 1, "-1 successes"),
    ],
)
def test_pass_hat_k_refuses_impossible_counts(successes, trials, k, words):
    with pytest.raises(ValueError, match=words):
        pass_hat_k(successes, trials, k)

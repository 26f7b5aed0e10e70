"""Two sides on the same tasks: the paired difference against scipy and a cluster bootstrap."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skillwright.evaluation import paired_difference
from skillwright.evaluation.difference import MAX_EXACT_TASKS

SHARES = st.integers(0, 8).map(lambda eighths: eighths / 8)
TABLES = st.lists(st.tuples(SHARES, SHARES), min_size=2, max_size=60)


def attempts(seed, tasks=150, most=6):
    """Return 0/1 attempts per task and side: hard tasks, easy tasks, and unequal numbers."""
    random = np.random.default_rng(seed)
    chances = random.beta(0.7, 0.7, size=tasks)
    better = np.clip(chances + random.normal(0.08, 0.15, size=tasks), 0, 1)
    sides = zip(chances, better, strict=True)
    return [
        tuple(random.random(random.integers(1, most + 1)) < chance for chance in pair)
        for pair in sides
    ]


def means(tasks):
    return [(first.mean(), second.mean()) for first, second in tasks]


@given(TABLES)
def test_it_is_the_paired_t_test_of_scipy(table):
    found = paired_difference(table)
    first, second = (np.array(side) for side in zip(*table, strict=True))
    assert found.effect == pytest.approx((second - first).mean(), abs=1e-9)
    if np.ptp(second - first) == 0:
        assert (found.p_value, found.method) == (None, "wilson")
        return
    oracle = stats.ttest_rel(second, first)
    bounds = oracle.confidence_interval(0.95)
    assert found.method == "student_t"
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-6)
    assert found.interval == pytest.approx((bounds.low, bounds.high), abs=1e-6)


def test_it_is_the_paired_t_test_of_scipy_on_many_graded_tasks():
    random = np.random.default_rng(3)
    first = random.random(5000)
    second = np.clip(first + random.normal(0.004, 0.2, 5000), 0, 1)
    found = paired_difference(list(zip(first, second, strict=True)))
    oracle = stats.ttest_rel(second, first)
    bounds = oracle.confidence_interval(0.95)
    assert found.p_value == pytest.approx(oracle.pvalue, abs=1e-6)
    assert found.interval == pytest.approx((bounds.low, bounds.high), abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_agrees_with_a_bootstrap_that_draws_tasks_with_all_of_their_attempts(seed):
    tasks = attempts(seed)
    found = paired_difference(means(tasks))
    random, samples, n = np.random.default_rng(100 + seed), 20_000, len(tasks)
    gains = np.array([second.mean() - first.mean() for first, second in tasks])
    drawn = gains[random.integers(0, n, size=(samples, n))].mean(axis=1)
    # Drawing from n tasks has the variance with divisor n, the t interval the one with n - 1.
    spread = drawn.std() * math.sqrt(n / (n - 1))
    error = (found.interval.high - found.interval.low) / 2 / stats.t.ppf(0.975, n - 1)
    assert error == pytest.approx(spread, rel=4 / math.sqrt(2 * samples))  # 4 standard errors
    # A percentile has a Monte Carlo error of its own, about 2.7 / sqrt(samples) spreads; what is
    # left of the tolerance is for z in place of t and for skewness, which is small for 150 tasks.
    allowed = spread * (4 * 2.7 / math.sqrt(samples) + 0.1)
    assert np.percentile(drawn, [2.5, 97.5]) == pytest.approx(found.interval, abs=allowed)
    assert drawn.mean() == pytest.approx(found.effect, abs=4 * spread / math.sqrt(samples))


def test_more_attempts_at_a_task_do_not_make_more_tasks():
    once = paired_difference([(0.0, 1.0), (1.0, 1.0), (0.0, 0.0)])
    # The same outcomes, each task attempted 50 times: its mean is what it was.
    again = paired_difference(
        means([(np.full(50, a), np.full(50, b)) for a, b in [(0, 1), (1, 1), (0, 0)]])
    )
    assert again == once


@given(TABLES)
def test_the_other_way_round_it_is_the_same_with_the_other_sign(table):
    one = paired_difference(table)
    other = paired_difference([(second, first) for first, second in table])
    assert other.effect == pytest.approx(-one.effect)
    assert (other.better, other.worse) == (one.worse, one.better)
    assert other.exact_p_value == one.exact_p_value
    assert other.interval == pytest.approx((-one.interval.high, -one.interval.low))


def test_the_exact_test_knows_how_little_a_few_changed_tasks_say():
    found = paired_difference([(0.0, 1.0)] * 5 + [(1.0, 1.0)] * 95)
    assert found.p_value < 0.05  # Student's t trusts five tasks among a hundred
    assert found.exact_p_value == pytest.approx(2 * 2**-5)


def test_the_exact_test_is_two_sided():
    table = [(0.0, 1.0)] * 7 + [(1.0, 0.0)] * 3
    oracle = stats.binomtest(7, 10).pvalue
    assert paired_difference(table).exact_p_value == pytest.approx(oracle)
    assert paired_difference([(0.5, 0.5)] * 4).exact_p_value == 1.0


def test_the_exact_test_is_left_out_where_it_would_take_long():
    differing = [(0.0, 1.0), (1.0, 0.0)] * (MAX_EXACT_TASKS // 2)
    assert paired_difference(differing + [(1.0, 1.0)] * 9).exact_p_value is not None
    assert paired_difference([*differing, (0.0, 1.0)]).exact_p_value is None


@pytest.mark.parametrize(("gain", "tasks"), [(1.0, 20), (0.0, 20), (0.25, 32), (-1.0, 8)])
def test_tasks_that_all_change_alike_have_an_interval_by_wilson(gain, tasks):
    found = paired_difference([(max(0.0, -gain), max(0.0, gain))] * tasks)
    others = stats.binomtest(0, tasks).proportion_ci(method="wilson").high
    # At worst so many tasks differ by -1, or by 1.
    bounds = (gain * (1 - others) - others, gain * (1 - others) + others)
    assert found.interval == pytest.approx(bounds)
    assert (found.method, found.p_value, found.effect) == ("wilson", None, gain)


def test_one_task_proves_nothing():
    found = paired_difference([(0.0, 1.0)])
    assert found.interval.low < 0
    assert (found.method, found.p_value, found.exact_p_value) == ("wilson", None, 1.0)


def test_what_differs_by_rounding_only_is_a_tie():
    found = paired_difference([(0.1 + 0.2, 0.3), (0.5, 0.5)])
    assert (found.effect, found.better, found.worse) == (0.0, 0, 0)


def test_without_a_task_there_is_no_difference():
    with pytest.raises(ValueError, match="no task"):
        paired_difference([])


def test_a_difference_is_plain_json():
    found = paired_difference([(0.0, 1.0), (1.0, 1.0)])
    told = json.loads(json.dumps(found.to_dict()))
    assert told["interval"] == list(found.interval)
    assert told["tasks"] == 2

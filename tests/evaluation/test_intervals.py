import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skillwright.evaluation import (
    clustered_wilson_interval,
    gain_text,
    mean_interval,
    paired_proportion_interval,
    wilson_interval,
)
from skillwright.evaluation.intervals import (
    normal_quantile,
    student_t_quantile,
    student_t_upper_tail,
)


@pytest.mark.parametrize(
    ("gain", "interval", "text"),
    [
        (0.12, (0.041, 0.199), "+12.0 points (95%: +4.1 to +19.9)"),
        (-0.0004, None, "+0.0 points"),
        (-0.25, (-0.5, 0.0), "-25.0 points (95%: -50.0 to +0.0)"),
    ],
)
def test_a_gain_is_written_in_points_with_its_interval(gain, interval, text):
    assert gain_text(gain, interval) == text


DEGREES = [1, 2, 3, 7, 12.5, 39, 99, 1000, 1e6]


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [-40.0, -3.0, -0.5, 0.0, 1e-6, 0.1, 1.0, 2.5, 8.0, 40.0])
def test_the_tail_of_students_t_is_that_of_scipy(t, df):
    assert student_t_upper_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("p", [1e-6, 0.0025, 0.05, 0.4, 0.5, 0.8, 0.975, 0.9999])
def test_the_quantile_of_students_t_is_that_of_scipy(p, df):
    assert student_t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-9)


def test_the_normal_quantile_is_that_of_scipy():
    for p in (1e-9, 0.025, 0.5, 0.999):
        assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("p", [0, 1, -0.5, math.nan])
def test_a_quantile_of_no_probability_is_an_error(p):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        student_t_quantile(p, 5)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        normal_quantile(p)


def test_degrees_of_freedom_must_be_positive():
    with pytest.raises(ValueError, match="degrees of freedom"):
        student_t_upper_tail(1.0, 0)


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (3, 17), (50, 100), (1, 1)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_wilsons_interval_is_that_of_scipy(successes, trials, confidence):
    oracle = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    found = wilson_interval(successes, trials, confidence)
    assert found == pytest.approx((oracle.low, oracle.high))


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (-1, 4), (5, 4), (0, 0)])
def test_wilsons_interval_refuses_what_is_no_proportion(successes, trials):
    with pytest.raises(ValueError, match="no proportion"):
        wilson_interval(successes, trials)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilsons_interval_holds_the_measured_share_and_stays_within_0_and_1(counts):
    successes, trials = counts
    low, high = wilson_interval(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_with_one_attempt_per_task_clustering_changes_nothing(outcomes):
    clustered = clustered_wilson_interval([(outcome, 1) for outcome in outcomes])
    assert clustered == pytest.approx(wilson_interval(sum(outcomes), len(outcomes)))


@given(
    st.lists(
        st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        min_size=1,
        max_size=40,
    )
)
def test_a_clustered_interval_is_no_narrower_than_attempts_and_no_wider_than_tasks_allow(counts):
    successes, attempts = sum(c for c, _ in counts), sum(n for _, n in counts)
    rate = successes / attempts
    widest = wilson_interval(rate * len(counts), len(counts))
    narrowest = wilson_interval(successes, attempts)
    low, high = clustered_wilson_interval(counts)
    assert widest.low - 1e-9 <= low <= narrowest.low + 1e-9
    assert narrowest.high - 1e-9 <= high <= widest.high + 1e-9


def test_attempts_that_always_agree_count_as_one_per_task():
    agreeing = [(4, 4)] * 6 + [(0, 4)] * 6
    assert clustered_wilson_interval(agreeing) == pytest.approx(wilson_interval(6, 12), abs=0.02)


@pytest.mark.parametrize(("tasks", "attempts"), [(3, 8), (5, 8), (10, 4)])
def test_a_clustered_interval_covers_the_truth_also_for_few_tasks(tasks, attempts):
    rng = random.Random(tasks)
    covered = 0
    for _ in range(400):
        rates = [rng.betavariate(0.6, 0.6) for _ in range(tasks)]
        wins = [sum(rng.random() < rate for _ in range(attempts)) for rate in rates]
        low, high = clustered_wilson_interval([(count, attempts) for count in wins])
        covered += low <= 0.5 <= high
    assert covered / 400 >= 0.94


def test_a_clustered_interval_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no proportion"):
        clustered_wilson_interval([])


def test_the_interval_of_a_mean_is_that_of_scipy():
    values = [0.0, 0.5, 1.0, 0.25, 0.75, 0.7]
    spread = stats.sem(values)
    oracle = stats.t.interval(0.9, len(values) - 1, loc=sum(values) / len(values), scale=spread)
    assert mean_interval(values, 0.9) == pytest.approx(oracle)


@pytest.mark.parametrize("values", [[], [0.5], [0.25, 0.25, 0.25]])
def test_a_mean_without_spread_has_no_interval(values):
    assert mean_interval(values) is None


def _pairs(both, only_first, only_second, neither):
    return (
        [(True, True)] * both
        + [(True, False)] * only_first
        + [(False, True)] * only_second
        + [(False, False)] * neither
    )


def test_the_paired_interval_is_newcombes():
    # Bentur et al. 2009, as worked out by Fagerland et al., Stat Med 33 (2014) 2850-2875.
    found = paired_proportion_interval(_pairs(1, 1, 7, 12))
    assert found == pytest.approx((0.0256, 0.5069), abs=5e-5)


@given(st.tuples(*[st.integers(0, 12)] * 4).filter(any))
def test_the_paired_interval_holds_the_difference_and_mirrors_when_the_sides_are_swapped(cells):
    pairs = _pairs(*cells)
    low, high = paired_proportion_interval(pairs)
    difference = (cells[2] - cells[1]) / len(pairs)
    assert -1 <= low <= difference + 1e-12
    assert difference - 1e-12 <= high <= 1
    swapped = paired_proportion_interval([(b, a) for a, b in pairs])
    assert swapped == pytest.approx((-high, -low))

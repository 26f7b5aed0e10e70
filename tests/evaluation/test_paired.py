import json
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skillwright.core import Pair
from skillwright.evaluation import (
    PairedEffect,
    cluster_means,
    measure_effect,
    paired_p_value,
)

GRADES = st.sampled_from(
    [-1.0, -0.75, -2 / 3, -0.5, -1 / 3, -0.25, 0.0, 0.25, 1 / 3, 0.5, 0.7, 1.0]
)


def by_enumeration(gains):
    observed = sum(gains)
    signs = list(product((1, -1), repeat=len(gains)))
    sums = [sum(s * g for s, g in zip(row, gains, strict=True)) for row in signs]
    return sum(total >= observed - 1e-9 for total in sums) / len(signs)


@given(st.lists(GRADES, min_size=1, max_size=10))
def test_the_p_value_is_the_share_of_sign_assignments_that_do_as_well(gains):
    assert paired_p_value(gains) == pytest.approx(by_enumeration(gains), abs=1e-12)


@pytest.mark.parametrize(
    ("wins", "losses", "ties"), [(8, 0, 0), (13, 4, 83), (60, 40, 300), (0, 5, 5)]
)
def test_for_wins_and_losses_it_is_the_sign_test(wins, losses, ties):
    gains = [1.0] * wins + [-1.0] * losses + [0.0] * ties
    oracle = stats.binomtest(wins, wins + losses, alternative="greater").pvalue
    assert paired_p_value(gains) == pytest.approx(oracle)


def test_gains_that_are_all_equal_are_judged_exactly():
    assert paired_p_value([0.0] * 30) == 1.0
    assert paired_p_value([0.25] * 20) == pytest.approx(2**-20)
    assert paired_p_value([-0.25] * 20) == 1.0


def by_convolution(gains, unit):
    """Count sums exactly, for gains that are whole multiples of ``unit``."""
    sizes = [round(abs(gain) / unit) for gain in gains]
    chance = np.ones(1)
    for size in sizes:
        coin = np.zeros(size + 1)
        coin[0] += 0.5
        coin[-1] += 0.5
        chance = np.convolve(chance, coin)
    return chance[sum(s for s, gain in zip(sizes, gains, strict=True) if gain > 0) :].sum()


def test_several_draws_on_many_tasks_are_counted_exactly():
    # Thirds have no exact float; their sums must not drift apart.
    rng = random.Random(5)
    gains = [rng.choice([-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1]) for _ in range(400)]
    assert paired_p_value(gains) == pytest.approx(by_convolution(gains, 1 / 3), rel=1e-9)


def test_gains_without_a_common_unit_are_weighed_closely():
    rng = random.Random(6)
    gains = [rng.gauss(0.3, 0.5) for _ in range(14)]
    assert paired_p_value(gains) == pytest.approx(by_enumeration(gains), rel=0.02)


def test_on_many_graded_tasks_it_is_close_to_students_t():
    gains = [((i * 7919) % 1000) / 1000 - 0.42 + i * 1e-5 for i in range(60)]
    student = stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue
    assert paired_p_value(gains) == pytest.approx(student, rel=0.15)


def test_a_few_large_gains_among_many_tiny_ones_are_not_more_than_their_coin_tosses():
    # Student's t says 0.0019 here, and would accept such luck at twice the rate it promises.
    large = [1 - 0.001 * i for i in range(8)]
    tiny = [1e-4 * (1 + 0.01 * i * i) for i in range(40)]
    gains = large + [-gain for gain in tiny]
    assert paired_p_value(gains) == pytest.approx(2**-8, rel=0.05)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.integers(1, 9))
def test_luck_alone_is_never_accepted_more_often_than_allowed(sizes, halvings):
    """Over all the signs that the gains could have had, p <= alpha at most alpha of the time."""
    alpha = 2**-halvings
    rows = list(product((1, -1), repeat=len(sizes)))
    accepted = sum(
        paired_p_value([s * g for s, g in zip(row, sizes, strict=True)]) <= alpha for row in rows
    )
    assert accepted <= alpha * len(rows)


def test_draws_of_a_task_are_averaged_before_tasks_are_compared(make_result):
    pairs = [
        Pair(make_result(0.0, "a", draw=d), make_result(reward, "a", draw=d))
        for d, reward in enumerate([1.0, 1.0, 1.0, 0.0])
    ]
    pairs += [Pair(make_result(1.0, "b"), make_result(0.5, "b"))]
    effect = measure_effect(pairs)
    assert (effect.tasks, effect.pairs, effect.better, effect.worse) == (2, 5, 1, 1)
    assert effect.gain == pytest.approx((0.75 - 0.5) / 2)
    assert (effect.incumbent, effect.candidate) == (0.5, pytest.approx((0.75 + 0.5) / 2))


def test_what_differs_by_rounding_only_is_a_tie(make_result):
    draws = [(0.0, 0.1), (0.3, 0.2)]  # in floats the gains add up to 3e-17
    pairs = [
        Pair(make_result(old, "a", draw=d), make_result(new, "a", draw=d))
        for d, (old, new) in enumerate(draws)
    ]
    effect = measure_effect(pairs)
    assert (effect.gain, effect.better, effect.worse) == (0.0, 0, 0)


def test_a_pair_with_a_failure_is_left_out_and_counted(make_pairs):
    effect = measure_effect(make_pairs([(0.0, 1.0), (None, 1.0), (1.0, None), (1.0, 1.0)]))
    assert (effect.pairs, effect.lost, effect.tasks) == (2, 2, 2)
    assert effect.gain == 0.5
    assert effect.candidate == 1.0  # the lost 1.0 of the second pair is no evidence


def test_nothing_scored_is_nothing_measured(make_pairs):
    effect = measure_effect(make_pairs([(None, 1.0)]))
    assert effect == PairedEffect(None, None, None, None, None, 0, 0, 0, 0, 0, 1)
    assert measure_effect([]).gain is None


def test_passes_on_single_draws_have_newcombes_interval_even_without_spread(make_pairs):
    low, high = measure_effect(make_pairs([(1.0, 1.0)] * 54)).interval
    assert (low, high) == (pytest.approx(-0.0664, abs=5e-4), pytest.approx(0.0664, abs=5e-4))


def test_graded_rewards_have_students_interval(make_pairs):
    effect = measure_effect(make_pairs([(0.0, 0.5), (0.5, 0.5), (0.25, 1.0)]))
    oracle = stats.ttest_1samp([0.5, 0.0, 0.75], 0.0).confidence_interval(0.95)
    assert effect.interval == pytest.approx((oracle.low, oracle.high))


def test_an_effect_survives_json(make_pairs):
    for pairs in (make_pairs([(0.0, 1.0), (None, 1.0)]), []):
        effect = measure_effect(pairs)
        assert PairedEffect.from_dict(json.loads(json.dumps(effect.to_dict()))) == effect


def test_copies_of_a_task_count_once(make_pairs):
    gains = {"a": 1.0, "a2": 1.0, "a3": 0.4, "b": -1.0, "c": 0.5}
    found = cluster_means(gains, {"a": "a", "a2": "a", "a3": "a"})
    assert found == {"a": pytest.approx(0.8), "b": -1.0, "c": 0.5}
    assert cluster_means(gains, {}) == gains
    # A row that was copied three times weighs no more than another one, in each number.
    pairs = make_pairs([(0, 1)] * 3 + [(1, 0), (1, 1), (0, 0)])
    effect = measure_effect(pairs, {f"t{i}": "copies" for i in range(3)})
    assert (effect.gain, effect.incumbent, effect.candidate) == (0.0, 0.5, 0.5)
    assert (effect.better, effect.worse, effect.tasks, effect.clusters) == (3, 1, 6, 4)


def test_a_test_flips_the_signs_of_a_cluster_together(make_pairs):
    # Ten questions, four copies of each, and all copies of a question gain or lose together.
    pairs = make_pairs([(0, 1)] * 36 + [(1, 0)] * 4)
    clusters = {f"t{i}": f"q{i // 4}" for i in range(40)}
    alone, clustered = measure_effect(pairs), measure_effect(pairs, clusters)
    assert clustered.clusters == 10
    assert clustered.p_value == pytest.approx(stats.binomtest(9, 10, alternative="greater").pvalue)
    assert alone.p_value < clustered.p_value / 1000
    assert (clustered.gain, clustered.better, clustered.tasks) == (alone.gain, 36, 40)


def test_the_interval_of_copies_is_that_of_their_questions(make_pairs):
    rewards = [(0, 1), (0, 1), (1, 1), (0, 0), (1, 0), (0, 1)]
    single = measure_effect(make_pairs(rewards * 2), {f"t{i}": f"q{i % 6}" for i in range(12)})
    gains = [new - old for old, new in rewards]
    low, high = stats.ttest_1samp(gains, 0.0).confidence_interval(0.95)
    assert single.interval == pytest.approx((low, high))


def test_the_interval_holds_for_clusters_of_unequal_sizes(make_pairs):
    rng, covered, runs, sizes = random.Random(8), 0, 400, (1, 2, 3, 6)
    for _ in range(runs):
        rewards, clusters = [], {}
        for cluster in range(24):
            gain = rng.gauss(0.1, 0.2)
            for _ in range(sizes[cluster % 4]):
                clusters[f"t{len(rewards)}"] = f"c{cluster}"
                rewards.append((0.5, 0.5 + gain))
        low, high = measure_effect(make_pairs(rewards), clusters, tests=False).interval
        covered += low <= 0.1 <= high
    assert covered / runs > 0.91

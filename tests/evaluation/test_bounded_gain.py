"""Bounds that hold: what is claimed of a section is not claimed by chance."""

import random
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import EpisodeSpec, Pair, Task
from skillwright.evaluation import (
    AlphaLedger,
    bound_gain,
    bounded_mean_interval,
    least_margin,
)

MARGIN, ALPHA, SECTIONS = 0.1, 0.05, 4
SHARE = AlphaLedger(ALPHA, SECTIONS + 1).share


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.sampled_from([0.9, 0.95, 0.999]))
def test_the_bounds_lie_around_the_mean_and_mirror_with_it(values, confidence):
    low, high = bounded_mean_interval(values, -1, 1, confidence)
    assert -1 <= low <= fmean(values) + 1e-9
    assert fmean(values) - 1e-9 <= high <= 1
    mirrored = bounded_mean_interval([-value for value in values], -1, 1, confidence)
    assert mirrored == pytest.approx((-high, -low))


def test_without_values_nothing_is_known_and_more_of_them_say_more():
    assert bounded_mean_interval([], -1, 1) == (-1, 1)
    widths = [bounded_mean_interval([0.0] * n, -1, 1).high for n in (5, 20, 80, 320)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.02


def test_a_value_outside_of_the_range_is_refused():
    with pytest.raises(ValueError, match="outside"):
        bounded_mean_interval([0.0, 1.5], 0, 1)


def test_where_nothing_differs_a_rare_loss_is_still_allowed_for():
    # A task that the section alone decides, in 7 of 100: 24 tasks often show none of them.
    assert least_margin(24, SHARE) > 0.15
    # Of 72 tasks one is met with all the certainty that is asked for.
    assert least_margin(72, SHARE) < 0.07


def section_is_deleted(rng, value, tasks, make_pairs, draws=2):
    """Measure a section that decides a share ``value`` of tasks; the others go by chance."""
    pairs = []
    for number in range(tasks):
        matters = rng.random() < value
        rate = rng.choice([1.0, 1.0, 0.95, 0.5])
        for _ in range(draws):
            whole = 1.0 if matters else float(rng.random() < rate)
            rest = 0.0 if matters else float(rng.random() < rate)
            pairs += make_pairs([(whole, rest)], first=number)
    return bound_gain(pairs, tasks, SHARE).is_above(-MARGIN)


def test_of_documents_with_useful_sections_alpha_bounds_those_that_would_lose_one(make_pairs):
    rng, documents = random.Random(11), 60
    wrong = sum(
        any(section_is_deleted(rng, MARGIN, 72, make_pairs) for _ in range(SECTIONS))
        for _ in range(documents)
    )
    assert wrong <= ALPHA * documents


def test_a_useless_section_is_found_where_there_are_tasks_enough(make_pairs):
    rng = random.Random(12)
    found = sum(section_is_deleted(rng, 0.0, 120, make_pairs, draws=4) for _ in range(20))
    assert found >= 14


def test_where_too_much_is_lost_nothing_follows(make_pairs):
    pairs = make_pairs([(1.0, 1.0)] * 60 + [(1.0, None)] * 12)
    gain = bound_gain(pairs, 72, SHARE)
    assert gain.interval.low > -MARGIN
    assert not gain.is_above(-MARGIN)
    assert "lost to failures" in gain.problem
    assert (gain.effect.pairs, gain.effect.lost) == (60, 12)


def test_copies_of_a_task_count_once(make_result):
    def pairs(cluster):
        return [
            Pair(*(replace(make_result(0.5, f"t{i}"), spec=spec(i, cluster)) for _side in "ab"))
            for i in range(60)
        ]

    def spec(number, cluster):
        return EpisodeSpec(Task(f"t{number}", "toy", extras=cluster(number)), seed=1)

    alone = bound_gain(pairs(lambda i: {}), 60, 0.05)
    copies = bound_gain(pairs(lambda i: {"cluster": i // 6}), 60, 0.05)
    assert copies.effect.clusters == 10
    assert copies.interval.low == pytest.approx(least_margin(10, 0.05) * -1)
    assert alone.interval.low == pytest.approx(-least_margin(60, 0.05))


def copied(rng, clusters, loss, make_result):
    """Rows of which some have up to 20 copies; all copies of a row share its fate."""
    pairs, sizes = [], (20, 8, 3, *[1] * (clusters - 3))
    for row, size in enumerate(rng.sample(sizes, clusters)):
        lost = rng.random() < loss
        for copy in range(size):
            spec = EpisodeSpec(Task(f"r{row}c{copy}", "toy", extras={"cluster": row}), seed=1)
            old, new = replace(make_result(1.0), spec=spec), replace(make_result(1.0), spec=spec)
            pairs.append(Pair(old, replace(new, reward=1.0 - lost)))
    return pairs


def test_one_row_with_many_copies_leaves_the_proof_to_the_others(make_result):
    rng, alpha, runs = random.Random(4), 0.05, 300
    gain = bound_gain(copied(rng, 60, 0.0, make_result), 88, alpha)
    assert gain.interval.low == pytest.approx(-least_margin(60, alpha))
    wrong = sum(
        bound_gain(copied(rng, 60, 0.1, make_result), 88, alpha).is_above(-0.1) for _ in range(runs)
    )
    assert wrong <= alpha * runs

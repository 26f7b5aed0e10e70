"""A gain that was proven on val and is not found on test."""

import random
from dataclasses import replace

import pytest

from skillwright.evaluation import Decision, Verdict, measure_effect, why_refuted
from skillwright.evaluation.verdict import Expected


def proven(effect, spread=0.15, before=0.4):
    return Verdict(
        Decision.ACCEPT,
        "Proven better.",
        effect=effect,
        interval=(effect - spread, effect + spread),
        incumbent_score=before,
    )


def found(make_pairs, better, worse, same, solved):
    return measure_effect(
        make_pairs([(0, 1)] * better + [(1, 0)] * worse + [(0, 0)] * same + [(1, 1)] * solved)
    )


@pytest.mark.parametrize(
    ("better", "worse", "same", "solved"),
    [
        (1, 16, 20, 23),  # worse than before
        (8, 9, 20, 23),  # no gain at all
        (9, 2, 41, 8),  # a gain, and less than half of what was proven
    ],
)
def test_a_gain_that_is_not_there_is_refuted(make_pairs, better, worse, same, solved):
    said = why_refuted(proven(0.5), found(make_pairs, better, worse, same, solved))
    assert "does not hold on test: a gain of +50.0 points (95%: +35.0 to +65.0) there" in said


@pytest.mark.parametrize(
    ("better", "worse", "same", "solved"),
    [
        (26, 2, 8, 24),  # about as large
        (5, 0, 0, 55),  # all that an easier split had left
        (9, 9, 0, 0),  # too few tasks to tell
    ],
)
def test_a_gain_that_may_be_there_is_not(make_pairs, better, worse, same, solved):
    assert not why_refuted(proven(0.3), found(make_pairs, better, worse, same, solved))


def test_the_gain_to_expect_is_compared_where_it_is_known(make_pairs):
    on_test = found(make_pairs, 9, 2, 41, 8)  # +.117; the measured +.5 would be refuted
    modest = replace(proven(0.5), expected=Expected(0.2, 0.05, 0.35))
    assert why_refuted(proven(0.5), on_test)
    assert not why_refuted(modest, on_test)
    large = replace(modest, expected=Expected(0.45, 0.35, 0.55))
    assert "a gain of +45.0 points (95%: +35.0 to +55.0) was expected" in why_refuted(
        large, on_test
    )


def test_an_honest_proof_is_hardly_ever_refuted(make_pairs):
    rng, refuted = random.Random(4), 0
    for _ in range(500):
        draws = [(rng.random() < 0.4, rng.random() < 0.7) for _ in range(140)]
        val, test = ([(float(a), float(b)) for a, b in part] for part in (draws[:40], draws[40:]))
        seen = measure_effect(make_pairs(val))
        verdict = Verdict(
            Decision.ACCEPT, "", seen.gain, seen.interval, incumbent_score=seen.incumbent
        )
        if seen.interval.low > 0:
            refuted += bool(why_refuted(verdict, measure_effect(make_pairs(test))))
    assert refuted <= 5

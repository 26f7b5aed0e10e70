"""Selection bias: what the gates saw, against what tasks say that no gate ever saw."""

import json
import math
import random
from statistics import fmean

import pytest

from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    Interval,
    SelectionBias,
    StrictGate,
    Verdict,
    gain_text,
    selection_bias,
)


def verdict(effect, low, high, decision=Decision.ACCEPT):
    return Verdict(decision, "", effect=effect, interval=(low, high))


@pytest.fixture
def episodes(make_result):
    def make(rewards, **fields):
        return [make_result(reward, f"c{i}", **fields) for i, reward in enumerate(rewards)]

    return make


def test_the_bias_is_what_the_gates_saw_less_what_was_confirmed(episodes):
    initial, best = episodes([0.0] * 10 + [1.0] * 10), episodes([1.0] * 4 + [0.0] * 6 + [1.0] * 10)
    accepted = [verdict(0.2, 0.1, 0.3), verdict(0.15, 0.05, 0.3)]
    found = selection_bias(accepted, initial, best)
    assert found.seen == pytest.approx(0.35)
    assert (found.confirmed.gain, found.confirmed.tasks) == (0.2, 20)
    assert found.bias == pytest.approx(0.15)
    low, high = found.confirmed.interval
    assert found.interval.low == pytest.approx(0.15 - math.hypot(0.1, 0.1, high - 0.2))
    assert found.interval.high == pytest.approx(0.15 + math.hypot(0.1, 0.15, 0.2 - low))


def test_only_accepted_decisions_led_to_the_best_skill(episodes):
    ties = episodes([1.0, 0.0] * 5)
    others = [
        verdict(0.9, 0.8, 1.0, Decision.REJECT),
        verdict(0.9, 0.8, 1.0, Decision.UNDECIDED),
        Verdict(Decision.ACCEPT, "entered unmeasured"),
    ]
    assert selection_bias(others, ties, ties).seen == 0
    assert selection_bias([*others, verdict(0.1, 0.0, 0.2)], ties, ties).seen == 0.1


def test_it_is_measured_in_the_gates_metric(episodes):
    initial, best = episodes([0.4] * 10), episodes([0.6] * 10)
    assert selection_bias([], initial, best).confirmed.gain == 0.0
    assert selection_bias([], initial, best, success_threshold=0.5).confirmed.gain == 1.0
    assert selection_bias([], initial, best, metric="soft").confirmed.gain == pytest.approx(0.2)
    smooth = selection_bias([], episodes([0.0] * 9, hard=0.25), episodes([0.0] * 9, hard=0.5))
    assert smooth.confirmed.gain == 0.25


def test_without_a_scored_confirmation_the_bias_is_unknown_and_not_zero(episodes):
    found = selection_bias([verdict(0.2, 0.1, 0.3)], episodes([1.0]), episodes([None]))
    assert (found.bias, found.interval, found.confirmed.lost) == (None, None, 1)
    assert "how much of it was chance is open" in found.sentence


def test_a_gain_without_a_spread_leaves_the_bias_without_an_interval(episodes):
    flat = Verdict(Decision.ACCEPT, "", effect=0.2)
    found = selection_bias([flat], episodes([0.0] * 9), episodes([1.0] * 9))
    assert (found.bias, found.interval) == (-0.8, None)
    assert "no interval" in found.sentence


@pytest.mark.parametrize(
    ("seen", "meaning"),
    [
        ((0.9, 0.8, 0.95), "is more than chance: expect the confirmed gain"),
        ((0.1, 0.0, 0.2), "may itself be chance"),
        ((-0.9, -0.95, -0.8), "is better than the gates saw"),
    ],
)
def test_people_are_told_what_it_means(episodes, seen, meaning):
    ties = episodes([1.0, 0.0] * 10)
    sentence = selection_bias([verdict(*seen)], ties, ties).sentence
    assert sentence.startswith(
        f"The gates saw the best skill gain {gain_text(seen[0])} over the in"
    )
    assert "on 20 tasks that no gate had seen it gained +0.0 points" in sentence
    assert meaning in sentence


def test_it_survives_json(episodes):
    for best in (episodes([0.0, 1.0, 1.0]), episodes([None] * 3)):
        found = selection_bias([verdict(0.2, 0.1, 0.3)], episodes([0.0] * 3), best)
        assert SelectionBias.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert isinstance(found.confirmed.lost, int)


async def test_a_strict_gate_that_picks_luck_is_found_out(chance_duel, listed_duel, make_result):
    """Twenty edits that change nothing: the gates see a gain, and confirmation does not."""
    biases, covered = [], 0
    for run in range(40):
        accepted = []
        for step in range(20):
            verdict = await StrictGate().judge(
                chance_duel(40, 0.0, 100 * run + step), AlphaLedger(0.05, 20)
            )
            accepted += [verdict] if verdict.accepted else []
        rng = random.Random(run)
        initial, best = (
            [make_result(float(rng.random() < 0.5), f"c{i}") for i in range(40)] for _ in "ab"
        )
        found = selection_bias(accepted, initial, best)
        biases.append(found.bias)
        covered += found.interval.low <= found.seen <= found.interval.high
    assert fmean(biases) > 0.3
    assert covered >= 34  # the truth is a gain of 0, so all that was seen is bias
    assert isinstance(found.interval, Interval)

"""Which gain a test finds, before a run; and what would have proven one, after it."""

import random
import re
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Pair
from skillwright.evaluation import (
    AlphaLedger,
    ExploreGate,
    OpenGate,
    PairedGate,
    StrictGate,
    detectable_gain,
    paired_p_value,
    power_text,
    why_hopeless,
)
from skillwright.evaluation.power import what_would_prove


@given(st.integers(8, 500), st.integers(1, 16), st.sampled_from([0.001, 0.007, 0.03, 0.05]))
def test_more_tasks_more_draws_and_more_alpha_find_smaller_gains(tasks, draws, alpha):
    found = detectable_gain(tasks, draws, alpha)
    if found is None:
        assert tasks < 40
        return
    assert 0 < found < 1
    assert detectable_gain(tasks + 1, draws, alpha) <= found
    assert detectable_gain(tasks, draws + 1, alpha) <= found
    assert detectable_gain(tasks, draws, 2 * alpha) < found


def test_where_no_gain_could_be_found_there_is_none():
    assert detectable_gain(2, 1, 0.001) is None
    assert detectable_gain(2, 16, 0.001) is not None


class HitDuel:
    """An edit that helps some tasks much: each is hit with a chance, and fails less often then."""

    def __init__(self, make_pairs, tasks, gain, seed):
        self._make, self._rng = make_pairs, random.Random(seed)
        rates = [self._rng.betavariate(0.6, 0.6) for _ in range(tasks)]
        share = gain / (0.5 * 0.75)  # of the failures of a task that is hit three quarters go
        self._rates = [
            (rate, rate + (1 - rate) * (0.75 if self._rng.random() < share else 0.0))
            for rate in rates
        ]
        self.task_ids = [f"t{number}" for number in range(tasks)]

    async def draw(self, task_ids, n):
        return [pair for number in range(len(task_ids)) for pair in self._pairs(number, n)]

    def _pairs(self, number, n):
        old, new = self._rates[number]
        rng = self._rng.random
        drawn = [(float(rng() < old), float(rng() < new)) for _ in range(n)]
        return [self._make([pair], first=number)[0] for pair in drawn]


@pytest.mark.parametrize(("tasks", "draws"), [(40, 4), (100, 1), (100, 4)])
async def test_the_gain_that_is_named_is_found_in_about_eight_of_ten_runs(make_pairs, tasks, draws):
    gain, ledger = detectable_gain(tasks, draws, 0.05), AlphaLedger(0.05, 1)
    found = [
        await PairedGate(draws=draws).judge(HitDuel(make_pairs, tasks, gain, seed), ledger)
        for seed in range(150)
    ]
    assert 0.68 <= fmean(verdict.accepted for verdict in found) <= 0.93


def drawn(make_pairs, tasks, draws, shift, seed):
    rng = random.Random(seed)
    rates = [rng.betavariate(0.6, 0.6) for _ in range(tasks)]
    return [
        Pair(*make_sides(make_pairs, number, rng.random() < rate, rng.random() < rate + shift))
        for number, rate in enumerate(rates)
        for _ in range(draws)
    ]


def make_sides(make_pairs, number, old, new):
    (pair,) = make_pairs([(float(old), float(new))], first=number)
    return pair.incumbent, pair.candidate


def means(pairs):
    by_task = {}
    for pair in pairs:
        by_task.setdefault(pair.task_id, []).append(pair.gain)
    return [fmean(gains) for gains in by_task.values()]


def test_so_many_more_tasks_would_prove_a_gain_of_that_size_in_eight_of_ten_runs(make_pairs):
    pairs = drawn(make_pairs, 40, 1, 0.1, seed=5)
    gains = means(pairs)
    assert paired_p_value(gains) > 0.05
    hint = what_would_prove(pairs, 0.05)
    more = int(re.search(r"(\d+) more val tasks", hint)[1])
    assert more > 0
    assert hint.endswith("would prove a gain of this size in 8 of 10 new runs")
    rng, proven = random.Random(1), 0
    for _ in range(300):  # tasks of the same kind, as many as were and as many as are named
        proven += paired_p_value([rng.choice(gains) for _ in range(40 + more)]) <= 0.05
    assert 0.68 <= proven / 300 <= 0.9


def test_draws_are_named_where_it_is_they_that_differ(make_pairs):
    hint = what_would_prove(drawn(make_pairs, 60, 2, 0.08, seed=3), 0.03)
    assert re.fullmatch(
        r"\d+ more val tasks or \d+ more draws of each would prove a gain of this size in 8 of 10 "
        r"new runs",
        hint,
    )
    # Where the draws of a task agree, more of them tell nothing.
    agreeing = make_pairs([(0.0, 1.0)] * 4 + [(1.0, 0.0)] + [(1.0, 1.0)] * 20)
    assert "draws" not in what_would_prove([*agreeing, *agreeing], 0.03)
    assert "more val tasks" in what_would_prove([*agreeing, *agreeing], 0.03)


@pytest.mark.parametrize(
    "rewards",
    [
        [],
        [(0.0, 1.0)],
        [(1.0, 1.0)] * 20,
        [(1.0, 0.0)] * 5 + [(1.0, 1.0)] * 5,
        [(None, 1.0)] * 9,
        [(0.0, 1.0)] * 50 + [(1.0, 0.0)] * 49,  # it would take many thousands
    ],
)
def test_where_nothing_was_gained_or_too_much_would_be_needed_nothing_is_promised(
    make_pairs, rewards
):
    assert what_would_prove(make_pairs(rewards), 0.05) == ""


def test_before_a_run_each_gate_says_what_it_can_find():
    said = power_text(ExploreGate(), ExploreGate().ledger(0.05, 7, second_release=True), 40)
    points = int(re.search(r"finds a true gain of (\d+) points in 80% of runs", said)[1])
    assert points == pytest.approx(100 * detectable_gain(40, 16, 0.03), abs=1)
    assert said.startswith("on 40 val tasks the release test finds")
    assert "(alpha 0.03 of the run's 0.05, up to 16 draws per task and side;" in said
    paired = PairedGate()
    said = power_text(paired, paired.ledger(0.05, 7), 40)
    assert "the paired gate, at each step, finds a true gain of" in said
    assert "alpha 0.0071 of the run's 0.05, up to 1 draw per task" in said
    strict, approves = StrictGate(), OpenGate()
    assert power_text(strict, strict.ledger(0.05, 7), 40).startswith(
        "the strict gate tests nothing"
    )
    assert "lets every edit become current" in power_text(approves, approves.ledger(0.05, 7), 40)
    # Nine tasks cannot reach 0.0001, however large the gain is.
    said = "on 9 val tasks the paired gate, at each step, finds no gain in 80% of runs"
    assert power_text(PairedGate(), AlphaLedger(0.0001, 1), 9) == said
    assert "a true gain of" in power_text(PairedGate(), AlphaLedger(0.0001, 1), 14)


def test_what_cannot_prove_anything_is_named_with_the_tasks_that_it_takes():
    explore, paired = ExploreGate(), PairedGate()
    assert why_hopeless(explore, explore.ledger(0.05, 500, second_release=True), 8) == ""
    assert why_hopeless(explore, explore.ledger(0.05, 500, second_release=True), 7) == (
        "the release test cannot prove a gain on 7 val tasks: at alpha = 0.03 it takes at least 8"
    )
    assert why_hopeless(paired, paired.ledger(0.05, 100), 10) == (
        "the paired gate cannot prove a gain on 10 val tasks: at alpha = 0.0005 (100 decisions "
        "share 0.05) it takes at least 11"
    )
    assert why_hopeless(paired, paired.ledger(0.05, 1), 7).endswith("0.05 it takes at least 8")
    for gate in (StrictGate(), OpenGate()):
        assert why_hopeless(gate, gate.ledger(0.05, 100), 1) == ""

"""A retirement is proven: what is lost without a skill is less than the margin."""

import random

import numpy as np
import pytest

from skillwright.core import Pair
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    NonInferiorityTest,
    ReleaseTest,
    Terms,
    mean_above_p_value,
    non_inferiority_power,
)

ALPHA, MARGIN = 0.05, 0.1
LEDGER = AlphaLedger(ALPHA, 1)


class RatedDuel:
    """Draws successes by the rates of each task's two sides.

    Args:
        rates: (incumbent, candidate) per task.
    """

    def __init__(self, rates, make_result, seed=0):
        self._rates = {f"t{number}": pair for number, pair in enumerate(rates)}
        self._make, self._rng, self.asked = make_result, random.Random(seed), []

    @property
    def task_ids(self):
        return list(self._rates)

    async def draw(self, task_ids, n):
        self.asked.append((len(task_ids), n))
        return [self._pair(task_id) for task_id in task_ids for _ in range(n)]

    def _pair(self, task_id):
        sides = self._rates[task_id]
        return Pair(*(self._make(self._drawn(rate), task_id) for rate in sides))

    def _drawn(self, rate):
        return None if rate is None else float(self._rng.random() < rate)


def lost_outright(rng, tasks, margin):
    """Of a share of the tasks, nothing is left."""
    return [(1.0, 0.0 if rng.random() < margin else 1.0) for _ in range(tasks)]


def lost_everywhere(rng, tasks, margin):
    """Every task is solved a little less often."""
    return [(rate, rate - margin) for rate in (rng.uniform(margin, 1) for _ in range(tasks))]


def lost_here_and_there(rng, tasks, margin):
    """Half of the tasks lose twice the margin, and the others vary as before."""
    return [
        (rate, rate - 2 * margin * (number % 2))
        for number, rate in enumerate(rng.uniform(2 * margin, 1) for _ in range(tasks))
    ]


def lost_and_won(rng, tasks, margin):
    """Some tasks are lost outright, and fewer are won."""
    moved = (rng.random() for _ in range(tasks))
    return [
        (1.0, 0.0) if one < 2 * margin else (0.0, 1.0) if one < 3 * margin else (0.5, 0.5)
        for one in moved
    ]


LOSSES = [lost_outright, lost_everywhere, lost_here_and_there, lost_and_won]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("tasks", "draws"), [(40, 2), (60, 8), (120, 4)])
def test_a_loss_of_exactly_the_margin_is_accepted_in_at_most_alpha_of_cases(loss, tasks, draws):
    rng, runs = random.Random(7), 1500
    drawing = np.random.default_rng(7)
    accepted = 0
    for _ in range(runs):
        old, new = np.array(loss(rng, tasks, MARGIN)).T
        gains = (drawing.binomial(draws, new) - drawing.binomial(draws, old)) / draws
        accepted += mean_above_p_value(gains.tolist(), -MARGIN) <= ALPHA
    # Three standard errors of a simulation of so many runs.
    assert accepted / runs <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5


@pytest.mark.parametrize("loss", [lost_outright, lost_here_and_there])
async def test_the_whole_test_with_its_early_ends_accepts_no_more(loss, make_result):
    rng, runs = random.Random(3), 200
    test, accepted = NonInferiorityTest(MARGIN, ReleaseTest(draws=8)), 0
    for run in range(runs):
        duel = RatedDuel(loss(rng, 45, MARGIN), make_result, run)
        accepted += (await test.judge(duel, LEDGER)).accepted
    assert accepted / runs <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5


async def test_what_loses_nothing_is_accepted_about_as_often_as_was_planned(make_result):
    tasks, draws, runs = 60, 8, 40
    rng, accepted = random.Random(1), 0
    for run in range(runs):
        rates = [(rate, rate) for rate in (rng.betavariate(0.6, 0.6) for _ in range(tasks))]
        verdict = await NonInferiorityTest(MARGIN, ReleaseTest(draws=draws)).judge(
            RatedDuel(rates, make_result, run), LEDGER
        )
        accepted += verdict.accepted
    planned = non_inferiority_power(tasks, draws, MARGIN, ALPHA)
    assert planned > 0.8
    assert accepted / runs == pytest.approx(planned, abs=0.15)


def test_more_tasks_draws_and_margin_find_more():
    assert non_inferiority_power(60, 16, 0.05, 0.05) < 0.4
    assert non_inferiority_power(120, 16, 0.05, 0.05) > 0.8
    assert non_inferiority_power(120, 4, 0.05, 0.05) < 0.5
    assert non_inferiority_power(60, 16, 0.1, 0.05) > 0.9


async def test_too_few_tasks_are_not_drawn_at_all(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 30, make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER)
    assert verdict.decision is Decision.UNDECIDED
    assert "30 held-out tasks cannot rule out a loss of 0.05" in verdict.reason
    assert "at least 66 are needed" in verdict.reason
    assert (duel.asked, verdict.alpha) == ([], None)


async def test_equal_sides_that_answer_alike_each_time_are_drawn_twice_and_accepted(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 40 + [(0.0, 0.0)] * 26, make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER)
    assert verdict.reason.startswith("Not worse: 0 of 66 tasks went better and 0 worse")
    assert (duel.asked, verdict.rollouts, verdict.alpha) == ([(66, 2)], 264, ALPHA)
    assert verdict.p_value == pytest.approx(ALPHA, abs=0.002)


async def test_a_plain_loss_is_given_up_after_the_first_draws(make_result):
    duel = RatedDuel([(0.9, 0.4)] * 66, make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER)
    assert verdict.decision is Decision.REJECT
    assert "a loss of 0.05 or more is what was measured" in verdict.reason
    assert duel.asked == [(66, 2)]


async def test_a_loss_that_may_be_chance_is_not_ruled_out(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 64 + [(1.0, 0.0)] * 2, make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER)
    assert verdict.decision is Decision.REJECT
    assert "a loss of 0.05 or more is not ruled out" in verdict.reason


@pytest.mark.parametrize("after", [0.5, 0.0])
async def test_bets_that_were_won_before_most_losses_came_accept_no_plain_loss(make_result, after):
    names = sorted(f"t{number}" for number in range(140))
    random.Random(derive_seed("non-inferiority", 5)).shuffle(names)
    lost_last = {name: (1.0, 1.0 if at < 80 else after) for at, name in enumerate(names)}
    duel = RatedDuel([lost_last[f"t{number}"] for number in range(140)], make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER, Terms(seed=5))
    assert verdict.p_value <= ALPHA
    assert verdict.effect < -0.05
    assert verdict.decision is Decision.REJECT
    assert "a loss of 0.05 or more is what was measured" in verdict.reason


async def test_every_task_is_drawn_equally_often(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 60 + [(0.5, 0.5)] * 20, make_result)
    await NonInferiorityTest(0.1, ReleaseTest(draws=6)).judge(duel, LEDGER)
    assert duel.asked == [(80, 2), (80, 2), (80, 2)]


async def test_lost_episodes_decide_nothing(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 64 + [(1.0, None)] * 16, make_result)
    verdict = await NonInferiorityTest(0.05).judge(duel, LEDGER)
    assert verdict.decision is Decision.UNDECIDED
    assert "16 of 80 held-out tasks have no score" in verdict.reason


async def test_a_used_up_ledger_decides_nothing(make_result):
    verdict = await NonInferiorityTest(MARGIN).judge(
        RatedDuel([(1.0, 1.0)] * 64, make_result), AlphaLedger(ALPHA, 1, made=1)
    )
    assert "nothing is left of alpha" in verdict.reason


async def test_a_veto_of_the_release_holds_here_too(make_result):
    test = NonInferiorityTest(MARGIN, ReleaseTest(max_worse_tasks=0))
    duel = RatedDuel([(1.0, 1.0)] * 99 + [(1.0, 0.0)], make_result)
    verdict = await test.judge(duel, LEDGER)
    assert verdict.decision is Decision.REJECT
    assert "1 task went worse, and at most 0 may" in verdict.reason


def test_the_p_value_falls_with_the_mean_that_is_asked_for_and_rises_with_losses():
    values = [0.5, -0.25, 0.0, 0.0, 0.25] * 20
    found = [mean_above_p_value(values, mean) for mean in (-0.3, -0.1, 0.0, 0.2)]
    assert found == sorted(found)
    assert found[0] < 1e-4
    assert found[-1] == 1.0
    assert mean_above_p_value([], -0.1) == 1.0
    assert mean_above_p_value([-1.0] * 50, -0.1) == 1.0
    # The very largest loss leaves a part of what was staked.
    assert mean_above_p_value([0.0] * 60 + [-1.0], -0.1) < 0.05


async def test_copies_of_a_task_count_once(chance_duel):
    test = NonInferiorityTest(0.2, ReleaseTest(draws=2))
    alone = await test.judge(chance_duel(120, 0.0, 3), LEDGER)
    copies = Terms(clusters={f"t{i}": f"c{i // 6}" for i in range(120)})
    clustered = await test.judge(chance_duel(120, 0.0, 3), LEDGER, copies)
    assert alone.p_value < clustered.p_value
    # One row with 30 copies counts once, and the other 90 prove as much as they do alone.
    uneven = Terms(clusters={f"t{i}": "copies" for i in range(30)})
    assert (await test.judge(chance_duel(120, 0.0, 3), LEDGER, uneven)).accepted
    few = Terms(clusters={f"t{i}": f"c{i // 60}" for i in range(120)})
    hopeless = await test.judge(chance_duel(120, 0.0, 3), LEDGER, few)
    assert "2 held-out tasks cannot rule out a loss of 0.2" in hopeless.reason

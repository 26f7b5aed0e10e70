"""A check answers better, not worse, worse or undecided, and is seldom wrong."""

import random

import pytest

from skillwright.core import Pair
from skillwright.evaluation import CheckAnswer, CheckTest, Noise

BETTER, NOT_WORSE, WORSE, UNDECIDED = CheckAnswer


class RatedDuel:
    """Draws successes by the rates of each task's two sides; ``None`` never has a score."""

    def __init__(self, rates, make_result, seed=0):
        self._rates = {f"t{number}": pair for number, pair in enumerate(rates)}
        self._make, self._rng, self.pairs = make_result, random.Random(seed), 0

    @property
    def task_ids(self):
        return list(self._rates)

    async def draw(self, task_ids, n):
        self.pairs += n * len(task_ids)
        return [self._pair(task_id) for task_id in task_ids for _ in range(n)]

    def _pair(self, task_id):
        sides = self._rates[task_id]
        return Pair(*(self._make(self._drawn(rate), task_id) for rate in sides))

    def _drawn(self, rate):
        return None if rate is None else float(self._rng.random() < rate)


@pytest.mark.parametrize(
    ("rates", "answer"),
    [
        ([(0.2, 0.8)] * 40, BETTER),
        ([(0.8, 0.2)] * 40, WORSE),
        ([(1.0, 1.0)] * 60, NOT_WORSE),
        ([(0.5, 0.5)] * 12, UNDECIDED),
        ([(0.1, 0.9)] * 5, BETTER),  # five tasks: the draws are the sample
        ([(0.9, 0.1)] * 5, WORSE),
        ([(1.0, 1.0)] * 5, NOT_WORSE),
    ],
)
async def test_an_answer_follows_the_rates(rates, answer, make_result):
    verdict = await CheckTest().judge(RatedDuel(rates, make_result))
    assert verdict.answer is answer
    assert verdict.sentence.lower().startswith(answer)
    assert verdict.sample == ("draws" if len(rates) < 8 else "tasks")


async def test_a_loss_within_the_margin_is_not_worse(make_result):
    rates = [(1.0, 1.0)] * 196 + [(1.0, 0.0)] * 4
    verdict = await CheckTest(margin=0.1).judge(RatedDuel(rates, make_result))
    assert verdict.answer is NOT_WORSE
    assert verdict.effect.gain == pytest.approx(-0.02)


async def test_a_clear_answer_needs_a_part_of_the_pairs(make_result):
    clear, vague = ([(0.2, rate)] * 40 for rate in (0.9, 0.25))
    duels = [RatedDuel(rates, make_result) for rates in (clear, vague)]
    for duel in duels:
        await CheckTest(draws=8).judge(duel)
    assert duels[0].pairs <= 80 < 160 <= duels[1].pairs


async def test_an_agent_that_answers_alike_is_not_asked_eight_times(make_result):
    duel = RatedDuel([(1.0, 1.0)] * 6 + [(0.0, 0.0)] * 6, make_result)
    verdict = await CheckTest().judge(duel)
    assert (verdict.answer, duel.pairs) == (UNDECIDED, 24)
    assert "more tasks would decide" in verdict.advice
    assert "draws" not in verdict.advice  # they would repeat


async def test_an_undecided_check_says_what_would_decide(make_result):
    verdict = await CheckTest().judge(RatedDuel([(0.5, 0.5)] * 20, make_result))
    assert verdict.answer is UNDECIDED
    assert "would decide with 80%" in verdict.sentence
    assert "a loss of 10.0 points is not ruled out" in verdict.sentence


async def test_lost_episodes_are_no_answer(make_result):
    rates = [(1.0, 0.0)] * 30 + [(1.0, None)] * 10
    verdict = await CheckTest().judge(RatedDuel(rates, make_result))
    assert verdict.answer is UNDECIDED
    assert "10 of 40" in verdict.broken


async def test_the_same_skill_is_neither_better_nor_worse(make_result):
    answers = []
    for seed in range(100):
        rng = random.Random(seed)
        rates = [(rate, rate) for rate in (rng.random() for _ in range(24))]
        verdict = await CheckTest(seed=seed % 3).judge(RatedDuel(rates, make_result, seed))
        answers.append(verdict.answer)
    assert sum(one in (NOT_WORSE, UNDECIDED) for one in answers) >= 95


def test_looks_grow_over_tasks_and_then_over_draws():
    looks = [(one.tasks, one.draws) for one in CheckTest(draws=4).looks(100)]
    assert looks == [(45, 1), (67, 1), (100, 1), (100, 2), (100, 3), (100, 4)]
    assert [(one.tasks, one.draws) for one in CheckTest(draws=1).looks(10)] == [(10, 1)]
    assert CheckTest().looks(5)[0].draws == 7  # at least 32 pairs at once


def test_noise_counts_tasks_that_vary_and_sees_a_drift(make_pairs):
    noise = Noise.of(make_pairs([(0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (None, 1.0)]))
    assert (noise.tasks, noise.varying, noise.lost, noise.is_odd) == (3, 2, 1, False)
    assert Noise.of(make_pairs([(1.0, 0.0)] * 12)).is_odd


async def test_near_copies_count_once(make_result):
    rates = [(0.0, 1.0)] * 6 + [(0.5, 0.5)] * 34
    alone = await CheckTest().judge(RatedDuel(rates, make_result))
    copies = {f"t{n}": "copies" for n in range(6)}
    duel = RatedDuel([(0.0, 1.0)] * 40, make_result)
    found = await CheckTest(clusters=dict.fromkeys(duel.task_ids, "one")).judge(duel)
    assert (found.sample, found.answer) == ("draws", BETTER)  # of one task, in effect
    together = await CheckTest(clusters=copies).judge(RatedDuel(rates, make_result))
    assert together.effect.clusters == 35
    assert together.p_better > alone.p_better
    assert "40 tasks (in 35 clusters of near copies)" in together.sentence

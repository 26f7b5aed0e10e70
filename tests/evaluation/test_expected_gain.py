"""The gain that is printed with a proof: what to expect on further tasks."""

import json

import pytest

from skillwright.core import Pair
from skillwright.evaluation import (
    Choice,
    Decision,
    ExploreGate,
    ReleaseTest,
    Seen,
    Terms,
    Verdict,
    gain_text,
    measure_effect,
)
from skillwright.evaluation.gates.gain import expected_gain

IDS = [f"t{number:02}" for number in range(40)]
LEDGER = ExploreGate().ledger(0.05, 1, second_release=True)


def seen_of(*accepted, tasks=IDS):
    """Return what a run has seen: the initial skill solves 10 tasks, then accepted candidates."""
    drawn = [dict.fromkeys(tasks[:10], 1.0)]
    drawn += [dict.fromkeys(tasks[:solved], 1.0) for solved in accepted]
    rewards = [{task: (one.get(task, 0.0), 1) for task in tasks} for one in drawn]
    return (Seen(rewards[0]), *(Seen(one, accepted=True) for one in rewards[1:]))


@pytest.fixture
def tested(make_result):
    """Return pairs of a release test in which the candidate solves so many tasks, and 10 before."""

    def make(solved, tasks=IDS):
        return [
            Pair(make_result(float(at < 10), task), make_result(float(at < solved), task))
            for at, task in enumerate(tasks)
        ]

    return make


def expected(seen, pairs, clusters=None):
    clusters = clusters or {}
    return expected_gain(IDS, seen, measure_effect(pairs, clusters, tests=False), clusters)


def test_a_high_result_promises_less_than_it_measured(tested):
    fair, high = (expected(seen_of(16), tested(solved)) for solved in (16, 30))
    assert fair.gain < 6 / 40
    assert fair.gain < high.gain < 20 / 40
    assert high.low >= 0


def test_a_belief_that_is_wrong_for_all_tasks_gives_way_to_many_draws(tested):
    # All tasks are solved; the belief takes 80% of them for solved, and one draw of each for luck.
    some, many = (expected(seen_of(40), tested(40) * draws) for draws in (1, 8))
    assert some.gain < many.gain
    assert many.low < 30 / 40 < many.high


def test_what_no_edit_touched_gains_nothing_whatever_its_draws(tested):
    found = expected(seen_of(), tested(40))
    assert (found.gain, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-5)


def test_copies_of_a_task_promise_less_certainly(tested):
    alone = expected(seen_of(20), tested(20))
    copies = expected(seen_of(20), tested(20), {task: str(at // 4) for at, task in enumerate(IDS)})
    assert copies.high - copies.gain > 1.3 * (alone.high - alone.gain)


async def judged(duel, terms):
    return await ReleaseTest().judge(duel, LEDGER, terms)


async def test_a_proof_prints_the_expected_gain_and_the_measured_one(drawn_duel):
    duel = drawn_duel({task: [(float(at < 10), float(at < 30))] for at, task in enumerate(IDS)})
    verdict = await judged(duel, Terms(seen=seen_of(20), repeats=False))
    found = verdict.expected
    assert verdict.accepted
    assert 0 < found.low < found.gain < found.high
    assert found.gain < verdict.effect
    assert (
        f"a change of {gain_text(verdict.effect)} in this test; expected on further tasks "
        f"{gain_text(found.gain, (found.low, found.high))}; p = "
    ) in verdict.reason
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    # A gate of a bank has no such record, and prints what it measured.
    plain = await judged(duel, Terms())
    assert plain.expected is None
    assert "points (95%: " in plain.reason


async def test_where_answers_repeat_the_gain_of_each_task_is_known(drawn_duel):
    duel = drawn_duel({task: [(float(at < 10), float(at < 30))] for at, task in enumerate(IDS)})
    moved = dict.fromkeys(IDS[10:30], 1.0)
    terms = Terms(seen=seen_of(30), judged=(Choice(20, True, moved),), repeats=True)
    verdict = await judged(duel, terms)
    assert verdict.accepted
    # Half of the tasks gained: a standard error of 1/2 / sqrt(40), once, and its interval.
    assert verdict.expected.gain == pytest.approx(0.5 - 0.5 / 40**0.5, abs=1e-6)
    assert verdict.expected.low < 0.5 < verdict.expected.high


async def test_a_gain_that_is_not_proven_promises_nothing(drawn_duel):
    duel = drawn_duel({task: [(1.0, 1.0)] for task in IDS})
    verdict = await judged(duel, Terms(seen=seen_of(20), repeats=False))
    assert (verdict.decision, verdict.expected) == (Decision.REJECT, None)


def test_a_few_draws_of_an_edit_leave_doubt_about_all_tasks_together(tested):
    drawn = {task: (float(at < 6), 1) for at, task in enumerate(IDS[10:22])}
    seen = (seen_of()[0], Seen(drawn, accepted=True))
    found = expected_gain(IDS, seen, measure_effect(tested(40)), {})
    assert found.low <= 0.6 <= found.high  # half of twelve mended, and all 30 in the test

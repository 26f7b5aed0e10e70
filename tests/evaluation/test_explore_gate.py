"""The gate of a step where proof is left to the release: when it stops, and what it draws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skillwright.evaluation import AlphaLedger, Decision, ExploreGate, ReleaseTest, Terms

LEDGER, TERMS = ExploreGate().ledger(0.05, 8), Terms()
WIN, LOSS, TIE, MISS, LOST = (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (None, 1.0)


def tasks(*results, ties=0):
    """Give tasks the results of their draws; then some that always tie."""
    listed = [one if isinstance(one, list) else [one] for one in results] + [[TIE]] * ties
    return {f"t{number}": draws for number, draws in enumerate(listed)}


async def judged(duel, ledger=LEDGER, terms=TERMS, **gate):
    return await ExploreGate(**gate).judge(duel, ledger, terms)


async def test_a_clear_gain_is_accepted_after_one_draw_of_each_task(drawn_duel):
    duel = drawn_duel(tasks(*[WIN] * 8, ties=12))
    verdict = await judged(duel)
    assert verdict.decision is Decision.ACCEPT
    assert duel.asked == [(duel.task_ids, 1)]
    assert (verdict.pairs, verdict.rollouts, verdict.effect) == (20, 40, 0.4)
    assert (verdict.incumbent_score, verdict.candidate_score) == (0.6, 1.0)
    assert verdict.reason == (
        "Accepted as current: 8 of 20 tasks went better and 0 worse in 20 pairs of draws; mean "
        "0.600 -> 1.000, a change of +0.400 (95% interval +0.158 to +0.613); a gain is more likely "
        "than not."
    )


async def test_a_clear_loss_is_given_up_after_one_draw_of_each_task(drawn_duel):
    duel = drawn_duel(tasks(*[LOSS] * 8, ties=12))
    verdict = await judged(duel)
    assert (verdict.decision, duel.asked) == (Decision.REJECT, [(duel.task_ids, 1)])
    assert verdict.reason.startswith("Rejected: 0 of 20 tasks went better and 8 worse in 20 pairs")
    assert verdict.reason.endswith("; a gain is not likely enough.")


@pytest.mark.parametrize(
    ("last", "decision"),
    [(TIE, Decision.ACCEPT), (LOSS, Decision.REJECT), (WIN, Decision.ACCEPT)],
)
async def test_the_last_look_accepts_any_gain_and_a_tie_is_none(drawn_duel, last, decision):
    # One task gains and one loses the same, and only the last two draws part them.
    duel = drawn_duel(tasks([WIN] * 6, [LOSS] * 4 + [last] * 2, ties=8))
    verdict = await judged(duel)
    both = ["t0", "t1"]
    assert duel.asked == [(duel.task_ids, 1), (both, 1), (both, 2), (both, 2)]
    assert (verdict.decision, verdict.rollouts) == (decision, 2 * (10 + 2 + 4 + 4))


async def test_the_more_looks_are_left_the_clearer_a_case_must_be(drawn_duel):
    # Of 20 tasks one win is a z of 1.0: too little at the first look, and enough at the second.
    duel = drawn_duel(tasks(WIN, ties=19))
    assert (await judged(duel)).accepted
    assert duel.asked == [(duel.task_ids, 1), (["t0"], 1)]
    only_two = drawn_duel(tasks(WIN, ties=19))
    assert (await judged(only_two, draws=2)).accepted
    assert only_two.asked == [(only_two.task_ids, 1)]  # with one look left 0.6 is enough
    worse = drawn_duel(tasks(LOSS, ties=19))
    assert not (await judged(worse)).accepted
    assert worse.asked == [(worse.task_ids, 1)]  # and giving up takes less: -1.0 is below -0.8


async def test_only_tasks_whose_results_differ_are_drawn_again(drawn_duel):
    # The third ties in every draw, and is solved in some of them only.
    noisy = [MISS, TIE, MISS, MISS, TIE, TIE]
    duel = drawn_duel(tasks([WIN], [LOSS, WIN], noisy, ties=7))
    await judged(duel)
    assert [names for names, _ in duel.asked[:2]] == [duel.task_ids, ["t0", "t1"]]
    assert all("t2" not in names for names, _ in duel.asked[1:])


@pytest.mark.parametrize("result", [TIE, MISS, (0.5, 0.5)])
async def test_where_everything_ties_one_look_is_the_last(drawn_duel, result):
    duel = drawn_duel(tasks(*[result] * 12))
    verdict = await judged(duel, metric="soft")
    assert (verdict.decision, verdict.effect) == (Decision.REJECT, 0.0)
    assert duel.asked == [(duel.task_ids, 1)]


@given(st.lists(st.sampled_from([WIN, LOSS, TIE, MISS]), min_size=1, max_size=30))
async def test_agents_whose_answers_do_not_vary_cost_one_look_of_what_ties(drawn_duel, results):
    duel = drawn_duel(tasks(*results))
    verdict = await judged(duel)
    differ = sum(old != new for old, new in results)
    assert verdict.rollouts <= 2 * (len(results) + 5 * differ)
    assert verdict.accepted == (results.count(WIN) > results.count(LOSS))


async def test_more_than_a_tenth_of_lost_pairs_is_undecided(drawn_duel):
    few = drawn_duel(tasks(*[WIN] * 17, [LOST, TIE]))
    assert (await judged(few)).accepted
    many = drawn_duel(tasks(*[WIN] * 17, LOST, LOST))
    verdict = await judged(many)
    assert verdict.decision is Decision.UNDECIDED
    assert "2 of 19 pairs were lost" in verdict.reason
    assert (verdict.lost, verdict.rollouts, verdict.alpha) == (2, 38, None)


async def test_tasks_that_always_fail_are_not_drawn_again_and_hold_up_no_verdict(drawn_duel):
    # Drawn with the two tasks that vary, the three of forty would soon be a seventh of all pairs.
    duel = drawn_duel(tasks(*[LOST] * 3, [WIN] * 6, [LOSS] * 4 + [WIN] * 2, ties=35))
    verdict = await judged(duel)
    assert duel.asked[1:] == [(["t3", "t4"], 1), (["t3", "t4"], 2), (["t3", "t4"], 2)]
    assert (verdict.decision, verdict.pairs, verdict.lost) == (Decision.ACCEPT, 47, 3)


async def test_more_than_a_tenth_of_tasks_without_a_score_is_undecided(drawn_duel):
    # Of 45 pairs only four were lost, and they are four of the 25 tasks.
    varying = [[WIN] * 6, [LOSS] * 4 + [WIN] * 2] * 2
    verdict = await judged(drawn_duel(tasks(*varying, *[LOST] * 4, ties=17)))
    assert (verdict.decision, verdict.pairs, verdict.lost) == (Decision.UNDECIDED, 41, 4)
    assert "4 of 25 held-out tasks have no score on both sides" in verdict.reason
    assert "more than 10%" in verdict.reason


async def test_where_everything_is_lost_nothing_is_decided(drawn_duel):
    verdict = await judged(drawn_duel(tasks(*[LOST] * 9)))
    assert (verdict.decision, verdict.effect, verdict.pairs) == (Decision.UNDECIDED, None, 0)


async def test_rewards_are_compared_by_the_metric(drawn_duel):
    graded = tasks(*[(0.4, 0.6)] * 5, ties=5)
    hard = await judged(drawn_duel(graded))
    assert (hard.decision, hard.effect, hard.rollouts) == (Decision.REJECT, 0.0, 20)
    soft = await judged(drawn_duel(graded), metric="soft")
    assert (soft.accepted, soft.effect) == (True, pytest.approx(0.1))
    passing = Terms(success_threshold=0.5)
    assert (await judged(drawn_duel(graded), terms=passing)).effect == 0.5
    mixed = await judged(drawn_duel(graded), terms=passing, metric="mixed", mixed_weight=0.25)
    assert mixed.effect == pytest.approx(0.75 * 0.5 + 0.25 * 0.1)


async def test_small_gains_in_graded_rewards_are_weighed_and_not_counted(drawn_duel):
    # Nine tasks gain a little, and one loses more than all of them together.
    duel = drawn_duel(tasks(*[(0.5, 0.51)] * 9, (0.9, 0.1)))
    assert (await judged(duel, metric="soft")).decision is Decision.REJECT


async def test_without_tasks_nothing_is_decided_and_one_task_is_enough(drawn_duel):
    none = drawn_duel({})
    verdict = await judged(none)
    assert (verdict.decision, none.asked) == (Decision.UNDECIDED, [])
    assert "Add validation tasks" in verdict.reason
    for result, accepted in ((WIN, True), (LOSS, False), (TIE, False)):
        one = drawn_duel(tasks(result))
        assert (await judged(one)).accepted is accepted
        assert one.asked == [(["t0"], 1)]


async def test_with_one_draw_there_is_one_look(drawn_duel):
    for results, accepted in (([WIN, WIN, LOSS], True), ([WIN, LOSS], False)):
        duel = drawn_duel(tasks(*results, ties=9))
        assert (await judged(duel, draws=1)).accepted is accepted
        assert duel.asked == [(duel.task_ids, 1)]


async def test_a_step_makes_no_test_and_takes_nothing_of_the_alpha(drawn_duel):
    spent = AlphaLedger(0.05, 2, made=2, shares=(0.6, 0.4))
    for result in (WIN, LOSS):
        verdict = await judged(drawn_duel(tasks(*[result] * 9)), spent)
        assert verdict.decision is not Decision.UNDECIDED
        assert (verdict.alpha, verdict.p_value) == (None, None)
        assert spent.spend(verdict) == spent


REWARDS = st.none() | st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


@given(
    st.lists(st.lists(st.tuples(REWARDS, REWARDS), min_size=1, max_size=6), max_size=25),
    st.sampled_from(["hard", "soft", "mixed"]),
    st.integers(1, 9),
)
async def test_whatever_happens_no_task_is_drawn_more_often_than_allowed(
    drawn_duel, results, metric, draws
):
    duel = drawn_duel(tasks(*results))
    verdict = await judged(duel, metric=metric, draws=draws)
    taken = {name: sum(n for names, n in duel.asked if name in names) for name in duel.task_ids}
    assert all(1 <= count <= draws for count in taken.values())
    assert verdict.rollouts == 2 * sum(taken.values()) == 2 * (verdict.pairs + verdict.lost)
    for (before, _), (after, _) in zip(duel.asked, duel.asked[1:], strict=False):
        assert set(after) <= set(before) or any(None in pair for one in results for pair in one)
    if verdict.accepted:
        assert verdict.effect > 0
        assert verdict.lost <= 0.1 * (verdict.pairs + verdict.lost)


def test_its_settings_are_those_of_its_release_test():
    gate = ExploreGate(
        metric="mixed", mixed_weight=0.3, release_draws=5, task_type_veto=0.1, max_worse_tasks=2
    )
    assert gate.release == ReleaseTest(5, "mixed", 0.3, 0.1, 2)
    assert gate.ledger(0.1, 99) == AlphaLedger(0.1, 1, shares=(1.0,))
    assert gate.ledger(0.1, 99, second_release=True) == AlphaLedger(0.1, 2, shares=(0.6, 0.4))
    assert ExploreGate(draws=1).expected_rollouts(40) == 80
    assert ExploreGate(draws=2).expected_rollouts(40) == ExploreGate().expected_rollouts(40) == 120


@pytest.mark.parametrize(
    "wrong",
    [
        {"metric": "loud"},
        {"draws": 0},
        {"draws": 1.5},
        {"release_draws": 0},
        {"family_veto": 1.5},
        {"family_veto": float("nan")},
        {"max_worse_tasks": -1},
        {"mixed_weight": -0.1},
        {"seed": 1},
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_once(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ExploreGate(**wrong)


# Measured over 2,000 duels: 0.44, 0.05, 0.98, and 1.6, 1.3, 1.2 times the first look.
@pytest.mark.parametrize(
    ("shift", "least", "most", "looks"),
    [(0.0, 0.35, 0.52, 1.75), (-0.1, 0.0, 0.09, 1.45), (0.15, 0.94, 1.0, 1.4)],
)
async def test_a_step_is_right_more_often_than_wrong_at_few_rollouts(
    chance_duel, shift, least, most, looks
):
    verdicts = [await judged(chance_duel(40, shift, seed=seed)) for seed in range(300)]
    share = sum(verdict.accepted for verdict in verdicts) / 300
    assert least <= share <= most
    assert sum(verdict.rollouts for verdict in verdicts) / (300 * 80) <= looks

from dataclasses import replace

import pytest

from skillwright.core import Pair
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    PairedGate,
    StrictGate,
    Terms,
    tasks_needed,
)

LEDGER = AlphaLedger(total=0.05, planned=1)
WIN, LOSS, TIE, LOST = (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (None, 1.0)


async def judged(gate, duel, ledger=LEDGER, success_threshold=1.0):
    return await gate.judge(duel, ledger, Terms(success_threshold=success_threshold))


async def test_the_paired_gate_accepts_a_gain_that_luck_does_not_explain(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([WIN] * 9 + [LOSS] + [TIE] * 10))
    verdict = await judged(PairedGate(), duel)
    assert verdict.decision is Decision.ACCEPT
    assert verdict.p_value == pytest.approx(11 / 1024)
    assert (verdict.alpha, verdict.pairs, verdict.lost, verdict.rollouts) == (0.05, 20, 0, 40)
    assert (verdict.incumbent_score, verdict.candidate_score) == (0.55, 0.95)
    assert verdict.effect == pytest.approx(0.4)
    assert verdict.reason == (
        "Accepted: 9 of 20 tasks went better and 1 worse; mean 0.550 -> 0.950, a change of +40.0 "
        "points (95%: +10.6 to +62.0); p = 0.011 is within this decision's 0.05."
    )


async def test_the_same_gain_is_rejected_where_many_decisions_share_the_alpha(
    listed_duel, make_pairs
):
    duel = listed_duel(make_pairs([WIN] * 9 + [LOSS] + [TIE] * 10))
    verdict = await judged(PairedGate(), duel, AlphaLedger(total=0.05, planned=10))
    assert verdict.decision is Decision.REJECT
    assert "that may be chance, because p = 0.011 is above this decision's 0.005" in verdict.reason
    assert verdict.alpha == pytest.approx(0.005)


@pytest.mark.parametrize(
    "rewards", [[TIE] * 12, [(0.5, 0.5)] * 12, [LOSS] * 12, [(0.5, 0.25)] * 12]
)
async def test_without_a_win_the_paired_gate_rejects(listed_duel, make_pairs, rewards):
    verdict = await judged(PairedGate(metric="soft"), listed_duel(make_pairs(rewards)))
    assert verdict.decision is Decision.REJECT
    assert verdict.p_value == 1.0
    assert "0 of 12 tasks went better" in verdict.reason


async def test_gains_without_variance_are_judged_exactly(listed_duel, make_pairs):
    verdict = await judged(PairedGate(metric="soft"), listed_duel(make_pairs([(0.5, 0.75)] * 8)))
    assert verdict.decision is Decision.ACCEPT
    assert verdict.p_value == 2**-8
    assert verdict.interval is None


@pytest.mark.parametrize(("planned", "needed"), [(1, 8), (20, 9), (100, 11)])
async def test_too_few_tasks_are_undecided_before_anything_is_drawn(
    listed_duel, make_pairs, planned, needed
):
    ledger = AlphaLedger(0.05, planned)
    assert tasks_needed(ledger.share) == needed
    duel = listed_duel(make_pairs([WIN] * (needed - 1)))
    verdict = await judged(PairedGate(), duel, ledger)
    assert verdict.decision is Decision.UNDECIDED
    assert f"at least {needed} are needed" in verdict.reason
    assert (verdict.rollouts, verdict.alpha, duel.asked) == (0, None, [])
    enough = await judged(PairedGate(), listed_duel(make_pairs([WIN] * needed)), ledger)
    assert enough.decision is Decision.ACCEPT


async def test_more_than_a_tenth_of_lost_pairs_is_undecided(listed_duel, make_pairs):
    verdict = await judged(PairedGate(), listed_duel(make_pairs([WIN] * 17 + [LOST] * 2)))
    assert verdict.decision is Decision.UNDECIDED
    assert "2 of 19 pairs were lost" in verdict.reason
    assert (verdict.lost, verdict.alpha, verdict.p_value) == (2, None, None)
    assert LEDGER.spend(verdict) == LEDGER
    fewer = await judged(PairedGate(), listed_duel(make_pairs([WIN] * 18 + [LOST] * 2)))
    assert fewer.decision is Decision.ACCEPT
    assert (fewer.pairs, fewer.lost, fewer.rollouts) == (18, 2, 40)


async def test_tasks_lost_below_the_minimum_are_undecided(listed_duel, make_pairs):
    twelve = make_pairs([WIN] * 11 + [LOST])
    verdict = await judged(PairedGate(), listed_duel(twelve), AlphaLedger(0.0005, 1))
    assert verdict.decision is Decision.ACCEPT  # eleven wins: 2^-11 = 0.00049
    verdict = await judged(PairedGate(), listed_duel(twelve), AlphaLedger(0.0003, 1))
    assert verdict.decision is Decision.UNDECIDED
    assert "11 held-out tasks cannot prove a gain" in verdict.reason


async def test_a_spent_ledger_leaves_every_candidate_undecided(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([WIN] * 20))
    verdict = await judged(PairedGate(), duel, AlphaLedger(0.05, 2, made=2))
    assert verdict.decision is Decision.UNDECIDED
    assert "nothing is left of alpha = 0.05" in verdict.reason
    assert duel.asked == []


async def test_the_paired_gate_asks_for_its_draws(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([TIE] * 8))
    await judged(PairedGate(draws=3), duel)
    assert duel.asked == [3]


async def test_a_harmed_family_vetoes_a_gain_on_the_whole(listed_duel, make_pairs):
    pairs = make_pairs([WIN] * 30, family="clean") + make_pairs(
        [LOSS] * 6 + [TIE] * 2, family="heat", first=30
    )
    verdict = await judged(PairedGate(task_type_veto=0.1), listed_duel(pairs))
    assert verdict.decision is Decision.REJECT
    assert "task type 'heat' got worse by more than 0.1" in verdict.reason
    assert verdict.alpha == 0.05
    assert (await judged(PairedGate(), listed_duel(pairs))).accepted
    assert (await judged(PairedGate(task_type_veto=0.9), listed_duel(pairs))).accepted


WORSE = "2 tasks went worse, and at most 1 may (evaluation.gate.max_worse_tasks): 't19', 't20'."


@pytest.mark.parametrize("gate", [PairedGate, StrictGate])
@pytest.mark.parametrize(("most", "accepted"), [(None, True), (2, True), (1, False), (0, False)])
async def test_more_harmed_tasks_than_allowed_are_a_veto_that_names_them(
    listed_duel, make_pairs, gate, most, accepted
):
    duel = listed_duel(make_pairs([(0, 1)] * 18 + [(1, 1)] + [(1, 0)] * 2))
    verdict = await judged(gate(max_worse_tasks=most), duel)
    assert verdict.accepted is accepted
    assert verdict.reason.endswith(WORSE) is (most == 1)
    if not accepted:
        assert verdict.decision is Decision.REJECT
        assert "mean 0.143 -> 0.905" in verdict.reason


async def test_a_task_is_harmed_in_its_mean_over_the_draws(listed_duel, make_pairs):
    gains = make_pairs([(0, 1)] * 12)
    mixed = make_pairs([(1, 0), (0, 1)], first=12)
    spread = [mixed[0], replace_task(mixed[1], mixed[0])]  # one task: a draw lost, a draw won
    gate = PairedGate(draws=2, max_worse_tasks=0)
    assert (await judged(gate, listed_duel([*gains, *gains, *spread]))).accepted
    verdict = await judged(gate, listed_duel([*gains, *gains, mixed[0], mixed[0]]))
    assert "1 task went worse, and at most 0 may" in verdict.reason
    assert verdict.reason.endswith("'t12'.")


def replace_task(pair, other):
    """Return a pair as another draw of the other's task."""
    spec = other.incumbent.spec
    return Pair(replace(pair.incumbent, spec=spec), replace(pair.candidate, spec=spec))


async def test_of_very_many_harmed_tasks_the_first_are_named(listed_duel, make_pairs):
    duel = listed_duel(make_pairs([(0, 1)] * 60 + [(1, 0)] * 23))
    verdict = await judged(StrictGate(max_worse_tasks=3), duel)
    assert verdict.reason.endswith("'t79' and 3 more.")


async def test_the_paired_gate_compares_passes_unless_told_otherwise(listed_duel, make_pairs):
    pairs = make_pairs([(0.4, 0.6)] * 10)
    nothing = await judged(PairedGate(), listed_duel(pairs))
    assert (nothing.decision, nothing.effect) == (Decision.REJECT, 0.0)
    hard = await judged(PairedGate(), listed_duel(pairs), success_threshold=0.5)
    assert (hard.accepted, hard.effect, hard.candidate_score) == (True, 1.0, 1.0)
    assert hard.interval is not None  # Newcombe's, because passes are 0 or 1
    soft = await judged(PairedGate(metric="soft"), listed_duel(pairs))
    assert (soft.accepted, soft.effect) == (True, pytest.approx(0.2))
    blend = PairedGate(metric="mixed", mixed_weight=0.25)
    mixed = await judged(blend, listed_duel(pairs), success_threshold=0.5)
    assert mixed.effect == pytest.approx(0.75 + 0.25 * 0.2)


@pytest.mark.parametrize("gate", [PairedGate(), StrictGate()])
async def test_a_gate_takes_the_benchmarks_own_pass_where_there_is_one(
    listed_duel, make_result, gate
):
    pairs = [
        Pair(
            make_result(1.0, f"t{i}", hard=0.25 * (i % 3)),
            make_result(0.0, f"t{i}", hard=0.25 * (i % 3) + 0.5),
        )
        for i in range(9)
    ]
    verdict = await judged(gate, listed_duel(pairs))
    assert verdict.accepted
    assert (verdict.incumbent_score, verdict.candidate_score) == (0.25, 0.75)


async def test_a_judged_pair_gains_what_its_rewards_do(listed_duel, make_pairs):
    pairs = make_pairs([(0.4, 0.6)] * 10)
    await judged(PairedGate(), listed_duel(pairs), success_threshold=0.5)
    assert [pair.gain for pair in pairs] == pytest.approx([0.2] * 10)


async def test_a_family_is_harmed_in_what_the_gate_compares(listed_duel, make_pairs):
    pairs = make_pairs([(0.0, 1.0)] * 30, family="clean") + make_pairs(
        [(0.9, 0.0)] * 8, family="heat", first=30
    )
    assert (await judged(PairedGate(task_type_veto=0.1), listed_duel(pairs))).accepted
    lenient = await judged(
        PairedGate(task_type_veto=0.1), listed_duel(pairs), success_threshold=0.9
    )
    assert "task type 'heat' got worse" in lenient.reason


@pytest.mark.parametrize(
    ("rewards", "margin", "decision"),
    [
        ([WIN, TIE, TIE], 0.0, Decision.ACCEPT),
        ([WIN, LOSS, TIE], 0.0, Decision.REJECT),
        ([LOSS, TIE, TIE], 0.0, Decision.REJECT),
        ([WIN, TIE, TIE, TIE], 0.25, Decision.REJECT),
        ([WIN, WIN, TIE, TIE], 0.25, Decision.ACCEPT),
    ],
)
async def test_the_strict_gate_accepts_any_gain_above_its_margin(
    listed_duel, make_pairs, rewards, margin, decision
):
    verdict = await judged(StrictGate(margin=margin), listed_duel(make_pairs(rewards)))
    assert verdict.decision is decision
    assert f"margin of {margin:g}" in verdict.reason
    assert verdict.alpha is None


async def test_a_tie_but_for_rounding_is_a_tie(listed_duel, make_pairs):
    pairs = make_pairs([(0.0, 0.1), (0.3, 0.2)])  # (0.1 - 0.0) + (0.2 - 0.3) > 0 in floats
    verdict = await judged(StrictGate(metric="soft"), listed_duel(pairs))
    assert (verdict.decision, verdict.effect) == (Decision.REJECT, 0.0)


async def test_the_strict_gate_compares_its_metric(listed_duel, make_pairs):
    pairs = make_pairs([(1.0, 0.9), (0.0, 0.4)])
    assert not (await judged(StrictGate(metric="hard"), listed_duel(pairs))).accepted
    soft = await judged(StrictGate(metric="soft"), listed_duel(pairs))
    assert (soft.accepted, soft.effect) == (True, pytest.approx(0.15))
    mixed = await judged(StrictGate(metric="mixed", mixed_weight=0.5), listed_duel(pairs))
    assert mixed.effect == pytest.approx((0.15 - 0.5) / 2)
    eager = StrictGate(metric="hard")
    assert (await judged(eager, listed_duel(pairs), success_threshold=0.3)).accepted


async def test_leading_words_break_a_tie_of_the_strict_gate_where_they_count(
    listed_duel, make_pairs
):
    before = "Always do this task step by step and be very careful because errors are bad."
    after = "Always verify outputs. Never mix proxy values."
    dense = StrictGate(density_weight=0.1)
    bonus = dense.bonus(before, after)
    assert bonus == pytest.approx(0.1 * (3 / 7 - 1 / 15))
    assert StrictGate().bonus(before, after) == 0.0
    assert StrictGate(density_weight=0.1, leading_words=["task"]).bonus(before, after) < 0
    tie = make_pairs([TIE, TIE])
    verdict = await dense.judge(listed_duel(tie), LEDGER, Terms(bonus=bonus))
    assert verdict.accepted
    assert "its words add +3.6 points" in verdict.reason
    assert not (await dense.judge(listed_duel(tie), LEDGER, Terms(bonus=-bonus))).accepted


async def test_the_strict_gate_is_undecided_without_tasks_or_with_many_lost(
    listed_duel, make_pairs
):
    empty = await judged(StrictGate(), listed_duel([]))
    assert empty.decision is Decision.UNDECIDED
    lost = await judged(StrictGate(), listed_duel(make_pairs([WIN, WIN, LOST])))
    assert lost.decision is Decision.UNDECIDED
    assert "1 of 3 pairs were lost" in lost.reason


async def test_the_paired_gate_counts_copies_of_a_task_once(listed_duel, make_pairs):
    pairs = make_pairs([(0, 1)] * 30 + [(1, 0)] * 10)
    alone = await PairedGate().judge(listed_duel(pairs), AlphaLedger(0.05, 1))
    terms = Terms(clusters={f"t{i}": f"q{i // 5}" for i in range(40)})
    clustered = await PairedGate().judge(listed_duel(pairs), AlphaLedger(0.05, 1), terms)
    assert alone.accepted
    assert not clustered.accepted
    assert clustered.p_value == pytest.approx(37 / 256)  # of 8 questions 6 gained and 2 lost
    few = Terms(clusters={f"t{i}": f"q{i // 10}" for i in range(40)})
    undecided = await PairedGate().judge(listed_duel(pairs), AlphaLedger(0.05, 1), few)
    assert "40 held-out tasks that are 4 clusters of near copies cannot prove" in undecided.reason

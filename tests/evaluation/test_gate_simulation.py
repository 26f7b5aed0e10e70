"""Gates judged on edits whose truth is known: success rates Beta(0.6, 0.6), independent luck."""

import pytest

from skillwright.evaluation import AlphaLedger, PairedGate, StrictGate

ALPHA = 0.05


async def accepted_share(gate, duels, ledger=None):
    ledger = ledger or AlphaLedger(ALPHA, planned=1)
    verdicts = [await gate.judge(duel, ledger) for duel in duels]
    return sum(verdict.accepted for verdict in verdicts) / len(verdicts)


def duels(chance_duel, tasks, shift, n):
    return [chance_duel(tasks, shift, seed=1000 * tasks + i) for i in range(n)]


async def test_the_paired_gate_seldom_accepts_an_edit_that_changes_nothing(chance_duel):
    assert await accepted_share(PairedGate(), duels(chance_duel, 40, 0.0, 600)) <= ALPHA


async def test_neither_does_it_with_several_draws_per_task(chance_duel):
    assert await accepted_share(PairedGate(draws=3), duels(chance_duel, 24, 0.0, 300)) <= ALPHA


async def test_the_paired_gate_finds_a_gain_of_twenty_points(chance_duel):
    assert await accepted_share(PairedGate(), duels(chance_duel, 100, 0.2, 100)) >= 0.85


async def test_more_draws_per_task_find_more(chance_duel):
    once = await accepted_share(PairedGate(), duels(chance_duel, 40, 0.2, 150))
    often = await accepted_share(PairedGate(draws=4), duels(chance_duel, 40, 0.2, 150))
    assert often >= once + 0.2


async def test_harmful_edits_are_never_seen_as_gains(chance_duel):
    assert await accepted_share(PairedGate(), duels(chance_duel, 40, -0.1, 200)) == 0


async def test_a_run_of_twenty_null_edits_seldom_accepts_even_one(chance_duel):
    ledger = AlphaLedger(ALPHA, planned=20)
    runs = 60
    spoilt = 0
    for run in range(runs):
        rest = ledger
        any_accepted = False
        for step in range(20):
            verdict = await PairedGate().judge(chance_duel(40, 0.0, 100 * run + step), rest)
            rest = rest.spend(verdict)
            any_accepted |= verdict.accepted
        spoilt += any_accepted
        assert rest.spent == pytest.approx(ALPHA)
    assert spoilt / runs <= ALPHA


@pytest.mark.parametrize("tasks", [20, 40, 100])
async def test_the_strict_gate_accepts_nearly_half_of_the_edits_that_change_nothing(
    chance_duel, tasks
):
    # This is why the strict gate is not the default.
    share = await accepted_share(StrictGate(), duels(chance_duel, tasks, 0.0, 400))
    assert 0.37 <= share <= 0.5

"""The sequential gate judged on edits whose truth is known, against the paired gate on all tasks.

Success rates are Beta(0.6, 0.6), luck is independent, and both gates see the very same draws.
"""

import functools

import pytest

from skillwright.core import Pair
from skillwright.evaluation import AlphaLedger, PairedGate, SequentialGate, Terms

ALPHA = 0.05
ONE_OF_TWENTY = 0.0025


@pytest.fixture
def listed_chances(chance_duel, listed_duel):
    """Duels whose every pair is drawn once, for as many gates as look."""

    @functools.cache
    def duels(tasks, shift, n):
        made = []
        for seed in range(n):
            chance = chance_duel(tasks, shift, seed=seed)
            made.append(
                listed_duel(
                    [
                        Pair(chance.play(task_id, 0.0), chance.play(task_id, shift))
                        for task_id in chance.task_ids
                    ]
                )
            )
        return made

    return duels


async def measured(gate, duels, alpha):
    """Return the share of accepted edits, and the share of all rollouts that was saved."""
    verdicts = [await gate.judge(duel, AlphaLedger(alpha, planned=1)) for duel in duels]
    tasks = len(duels[0].task_ids)
    rollouts = sum(verdict.rollouts for verdict in verdicts)
    accepted = sum(verdict.accepted for verdict in verdicts)
    return accepted / len(duels), 1 - rollouts / (2 * tasks * len(duels))


# Measured over 1,000 duels: 0.44, 0.58 and 0.65 at 0.05; 0.62 and 0.73 at 0.0025.
@pytest.mark.parametrize(
    ("alpha", "shift", "least"),
    [
        (ALPHA, 0.0, 0.38),
        (ALPHA, -0.05, 0.52),
        (ALPHA, -0.1, 0.6),
        (ONE_OF_TWENTY, 0.0, 0.58),
        (ONE_OF_TWENTY, -0.1, 0.68),
    ],
)
async def test_what_changes_nothing_or_does_harm_saves_much_of_the_rollouts(
    listed_chances, alpha, shift, least
):
    accepted, saved = await measured(SequentialGate(), listed_chances(100, shift, 200), alpha)
    assert saved >= least
    assert accepted <= alpha if shift == 0 else accepted <= 0.005


@pytest.mark.parametrize(("alpha", "tasks"), [(ALPHA, 40), (ONE_OF_TWENTY, 40), (0.3, 16)])
async def test_an_edit_that_changes_nothing_is_seldom_accepted(listed_chances, alpha, tasks):
    accepted, _ = await measured(SequentialGate(), listed_chances(tasks, 0.0, 800), alpha)
    assert accepted <= alpha


# Measured over 1,000 duels: at most 0.039 fewer at 0.05 and 0.055 at 0.0025.
@pytest.mark.parametrize(
    ("alpha", "shift"), [(ALPHA, 0.15), (ALPHA, 0.2), (ONE_OF_TWENTY, 0.2), (ONE_OF_TWENTY, 0.3)]
)
async def test_few_gains_are_missed_that_the_paired_gate_finds(listed_chances, alpha, shift):
    duels = listed_chances(100, shift, 200)
    found, saved = await measured(SequentialGate(), duels, alpha)
    fixed, _ = await measured(PairedGate(), duels, alpha)
    assert found >= fixed - 0.08
    assert saved >= 0.08


async def test_a_large_gain_is_found_early(listed_chances):
    found, saved = await measured(SequentialGate(), listed_chances(100, 0.4, 100), ALPHA)
    assert found >= 0.97
    assert saved >= 0.4


async def test_a_run_of_twenty_null_edits_seldom_accepts_even_one(chance_duel):
    runs, spoilt = 60, 0
    for run in range(runs):
        ledger = AlphaLedger(ALPHA, planned=20)
        any_accepted = False
        for step in range(20):
            duel = chance_duel(40, 0.0, 100 * run + step)
            verdict = await SequentialGate().judge(duel, ledger, Terms(seed=run))
            ledger = ledger.spend(verdict)
            any_accepted |= verdict.accepted
        spoilt += any_accepted
        assert ledger.spent == pytest.approx(ALPHA)
    assert spoilt / runs <= ALPHA

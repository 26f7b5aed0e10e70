"""Holds the power that is printed before a run against simulated release tests."""

import numpy as np

from gates_study.duel import FakeDuel, Side, result_of
from gates_study.rules import ALPHA, TERMS
from gates_study.summary import Row
from gates_study.worlds import STRENGTH, Cell, Edit, draw_rates, mean_rate
from skillwright.evaluation import ExploreGate, detectable_gain, wilson_interval
from skillwright.evaluation.power import POWER


def power_row(world: str, tasks: int, runs: int) -> Row | None:
    """Return how often a gain is proven that should be proven in 8 of 10 runs.

    The gain falls on a share of the tasks, as that of the study's useful edits does.

    Args:
        world: Where success rates come from.
        tasks: Validation tasks.
        runs: How many release tests.

    Returns:
        ``None`` in a world where no such edit can gain so much.
    """
    gate = ExploreGate()
    ledger = gate.ledger(ALPHA, 1, second_release=True)
    gain = detectable_gain(tasks, gate.release_draws, ledger.share)
    share = (gain or 1.0) / (1 - mean_rate(world)) / float(np.mean(STRENGTH))
    if gain is None or share > 1:
        return None
    found = 0
    for run in range(runs):
        rng = Cell(world, "power", tasks, 1).generator(run, "power")
        rates = draw_rates(world, tasks, rng)
        better = Edit(1, rng.random(tasks) < share, rng.uniform(*STRENGTH)).of(rates)
        duel = FakeDuel(*(Side(one, gate.release_draws, rng, 0) for one in (rates, better)))
        found += result_of(gate.release.judge(duel, ledger, TERMS)).accepted
    return {
        "world": world,
        "tasks": tasks,
        "gain": round(gain, 3),
        "runs": runs,
        "said": POWER,
        "found": round(found / runs, 3),
        "found_95": [round(bound, 3) for bound in wilson_interval(found, runs)],
    }

"""How often the test of a retirement is wrong, and how often it finds that nothing is lost.

    nice python benchmarks/non_inferiority.py

Changes that lose exactly the margin are simulated in four shapes, and changes that lose nothing in
two, each by the project's own p-value and by a paired t test. The last line is one JSON object.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.stats import t  # noqa: E402

from measuring import Kind, at_least, at_most, report  # noqa: E402
from skillwright.evaluation import mean_above_p_value, non_inferiority_power  # noqa: E402

Rates = NDArray[np.float64]
World = Callable[[np.random.Generator, int, float], tuple[Rates, Rates]]

ALPHA, HALF = 0.05, 0.02
TASKS, DRAWS, MARGINS = (60, 120, 180, 240), (4, 16), (0.05, 0.1)
STANDARD_ERRORS = 3


def outright(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Of a share of the tasks, nothing is left."""
    return np.ones(tasks), (rng.random(tasks) >= margin).astype(float)


def everywhere(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Every task is solved a little less often."""
    before = rng.uniform(margin, 1, tasks)
    return before, before - margin


def here_and_there(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Each task loses four times the margin with a chance of a quarter."""
    before = rng.uniform(4 * margin, 1, tasks)
    return before, before - 4 * margin * (rng.random(tasks) < 0.25)


def both_ways(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Some tasks are lost outright, half as many are won, and the rest vary."""
    moved, before = rng.random(tasks), rng.beta(0.6, 0.6, tasks)
    lost, won = moved < 2 * margin, (moved >= 2 * margin) & (moved < 3 * margin)
    old = np.where(lost, 1.0, np.where(won, 0.0, before))
    return old, np.where(lost, 0.0, np.where(won, 1.0, before))


def unchanged(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Nothing is lost."""
    del margin
    rates = rng.beta(0.6, 0.6, tasks)
    return rates, rates


def shuffled(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Nothing is lost in the mean, and a fifth of the tasks has another rate."""
    del margin
    before, other = rng.beta(3.4, 0.6, tasks), rng.beta(3.4, 0.6, tasks)
    return before, np.where(rng.random(tasks) < 0.2, other, before)


LOSSES: tuple[World, ...] = (outright, everywhere, here_and_there, both_ways)
NO_LOSSES: tuple[World, ...] = (unchanged, shuffled)


def accepted(
    world: World, tasks: int, draws: int, margin: float, alpha: float, runs: int
) -> tuple[float, float]:
    """Return the share of runs that the test accepts, and that a t test would."""
    rng, ours, theirs = np.random.default_rng(17), 0, 0
    bound = float(t.ppf(1 - alpha, tasks - 1)) / tasks**0.5
    for _ in range(runs):
        before, after = world(rng, tasks, margin)
        gains = (rng.binomial(draws, after) - rng.binomial(draws, before)) / draws
        ours += mean_above_p_value(gains.tolist(), -margin) <= alpha
        theirs += bool(gains.mean() + margin > bound * gains.std(ddof=1))
    return ours / runs, theirs / runs


def main() -> int:
    """Simulate, print a table and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of a cell")
    runs = parser.parse_args().runs
    sizes, powers = [], []
    for margin in MARGINS:
        for tasks in TASKS:
            for draws in DRAWS:
                cell: dict[str, Any] = {"margin": margin, "tasks": tasks, "draws": draws}
                for world in LOSSES:
                    found = accepted(world, tasks, draws, margin, ALPHA, runs)
                    sizes.append(
                        {**cell, "loss": world.__name__, "size": found[0], "t_test": found[1]}
                    )
                    print(json.dumps(sizes[-1]), flush=True)
                for alpha in (ALPHA, HALF):
                    power = [accepted(w, tasks, draws, margin, alpha, runs) for w in NO_LOSSES]
                    planned = non_inferiority_power(tasks, draws, margin, alpha)
                    row = {**cell, "alpha": alpha, "power": [one[0] for one in power]}
                    powers.append({**row, "planned": planned})
                    print(json.dumps(powers[-1]), flush=True)
    error = (ALPHA * (1 - ALPHA) / runs) ** 0.5
    worst = [one["size"] for one in sizes]
    far = [abs(one["power"][0] - one["planned"]) for one in powers]
    usual = [
        min(one["power"])
        for one in powers
        if (one["margin"], one["tasks"], one["draws"], one["alpha"]) == (0.1, 120, 16, HALF)
    ]
    return report(
        [
            at_most(
                "a loss of the margin is accepted", Kind.SHARE, [max(worst)], ALPHA + 3 * error
            ),
            at_most("planned power is off by", Kind.SHARE, [max(far)], 0.1),
            at_least("no loss is found: 120 tasks, 16 draws, margin .1", Kind.SHARE, usual, 0.9),
        ],
        t_test_accepts=max(one["t_test"] for one in sizes),
        sizes=sizes,
        powers=powers,
    )


if __name__ == "__main__":
    sys.exit(main())

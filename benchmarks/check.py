"""How often `skillwright check` is wrong, and what it saves over a test of a fixed size.

    nice python benchmarks/check.py            # 500 runs of each world, about ten minutes
    nice python benchmarks/check.py --short

Old and new skill are success rates per task; agents' answers vary. The fixed test draws every task
equally often, once decided in advance, and has the same p-values. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import numpy as np  # noqa: E402

from measuring import Kind, at_least, at_most, report  # noqa: E402
from non_inferiority import LOSSES, NO_LOSSES, Rates, World  # noqa: E402
from skillwright.core import EpisodeResult, EpisodeSpec, Pair, Task  # noqa: E402
from skillwright.evaluation import (  # noqa: E402
    CheckAnswer,
    CheckTest,
    CheckVerdict,
    mean_above_p_value,
)
from skillwright.evaluation.check import CHANGE_ALPHA, LOSS_ALPHA, SignTest  # noqa: E402

TASKS, FEW, FEW_RUNS, MARGIN = 120, 5, 100, 0.1
FIXED_DRAWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)


def everywhere_better(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """Every task is solved a little more often."""
    rates = rng.beta(0.6, 0.6, tasks)
    return rates, np.clip(rates + margin, 0, 1)


def some_better(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """A third of the tasks gains much."""
    rates, helped = rng.beta(0.6, 0.6, tasks), rng.random(tasks) < 1 / 3
    return rates, np.clip(rates + 5 * margin * helped, 0, 1)


def some_worse(rng: np.random.Generator, tasks: int, margin: float) -> tuple[Rates, Rates]:
    """A third of the tasks loses much."""
    return some_better(rng, tasks, margin)[::-1]


CHANGES: tuple[tuple[World, CheckAnswer], ...] = (
    (everywhere_better, CheckAnswer.BETTER),
    (some_better, CheckAnswer.BETTER),
    (some_worse, CheckAnswer.WORSE),
    (NO_LOSSES[0], CheckAnswer.NOT_WORSE),
)


class RatedDuel:
    """Draws successes by the rates of each task's two sides, and counts the pairs."""

    def __init__(self, rates: tuple[Rates, Rates], rng: np.random.Generator) -> None:
        ids = [f"t{number:03d}" for number in range(len(rates[0]))]
        self._rates = dict(zip(ids, zip(*rates, strict=True), strict=True))
        self._results = {
            one: [
                EpisodeResult(EpisodeSpec(Task(one, env="toy"), seed=0), float(k)) for k in (0, 1)
            ]
            for one in ids
        }
        self._rng, self.pairs = rng, 0

    @property
    def task_ids(self) -> Sequence[str]:
        """The ids of all tasks."""
        return list(self._rates)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw ``n`` pairs of each task."""
        self.pairs += n * len(task_ids)
        drawn = self._rng.random((len(task_ids), n, 2))
        return [
            Pair(*(one[int(x < rate)] for x, rate in zip(pair, self._rates[name], strict=True)))
            for name, draws in zip(task_ids, drawn, strict=True)
            for pair in draws
            for one in (self._results[name],)
        ]


def checked(
    rates: tuple[Rates, Rates], rng: np.random.Generator, seed: int
) -> tuple[CheckVerdict, int]:
    """Return the verdict of a check, and its pairs."""
    duel = RatedDuel(rates, rng)
    verdict = asyncio.run(CheckTest(MARGIN, seed=seed % 2).judge(duel))  # signs are slow to make
    return verdict, duel.pairs


def answers(world: World, tasks: int, runs: int, margin: float = MARGIN) -> tuple[Counter, float]:
    """Return the share of each answer over simulated checks, and the mean number of pairs."""
    rng, found, pairs = np.random.default_rng(29), Counter(), 0
    for run in range(runs):
        verdict, drawn = checked(world(rng, tasks, margin), rng, run)
        found[verdict.answer] += 1
        pairs += drawn
    return Counter({answer: count / runs for answer, count in found.items()}), pairs / runs


def fixed_pairs(world: World, answer: CheckAnswer, power: float, runs: int) -> float:
    """Return the pairs at which a test of a fixed size gives ``answer`` as often."""
    before = (0.0, 0.0)
    for draws in FIXED_DRAWS:
        rng, proven = np.random.default_rng(31), 0
        for _ in range(runs):
            old, new = world(rng, TASKS, MARGIN)
            gains = ((rng.binomial(draws, new) - rng.binomial(draws, old)) / draws).tolist()
            proven += _proves(gains, answer)
        after = (proven / runs, float(TASKS * draws))
        if after[0] >= power:
            step = (power - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 1.0
            return before[1] + step * (after[1] - before[1])
        before = after
    return before[1]


def _proves(gains: list[float], answer: CheckAnswer) -> bool:
    if answer is CheckAnswer.NOT_WORSE:
        return mean_above_p_value(gains, -MARGIN) <= LOSS_ALPHA
    sign = 1 if answer is CheckAnswer.BETTER else -1
    return (
        SignTest(len(gains), 1).look([sign * gain for gain in gains], CHANGE_ALPHA) <= CHANGE_ALPHA
    )


def advised(runs: int) -> tuple[int, float]:
    """Return undecided checks of few tasks, and the share that the advised tasks decide."""
    rng, undecided, decided = np.random.default_rng(37), 0, 0
    for run in range(runs):
        old, new = NO_LOSSES[0](rng, 40, MARGIN)
        verdict, _ = checked((old, new), rng, run)
        words = verdict.advice.split()
        if verdict.answer is not CheckAnswer.UNDECIDED or "tasks" not in words or words[0] == "not":
            continue
        undecided += 1
        # If the measured gain is true: the tasks' rates are those that were measured.
        more = 40 + int(words[0])
        truth = NO_LOSSES[0](rng, more, MARGIN)[0]
        shifted = np.clip(truth + (verdict.effect.gain or 0.0), 0, 1)
        decided += checked((truth, shifted), rng, run)[0].answer is not CheckAnswer.UNDECIDED
    return undecided, decided / max(1, undecided)


def main() -> int:
    """Simulate, print a line per world and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500, help="checks of a world")
    parser.add_argument("--short", action="store_true", help="60 checks of a world")
    given = parser.parse_args()
    runs = 60 if given.short else given.runs
    better, not_worse, same, costs = [], [], [], []
    for world, tasks in ((NO_LOSSES[0], TASKS), (NO_LOSSES[0], FEW), (NO_LOSSES[1], TASKS)):
        # What would decide takes a second to simulate, and few tasks mostly need it.
        found, pairs = answers(world, tasks, min(runs, FEW_RUNS) if tasks == FEW else runs)
        print(json.dumps({"tasks": tasks, world.__name__: found, "pairs": pairs}), flush=True)
        better.append(found[CheckAnswer.BETTER])
        if world is NO_LOSSES[0]:
            same.append(1 - found[CheckAnswer.BETTER] - found[CheckAnswer.WORSE])
    for world in LOSSES:
        found, pairs = answers(world, TASKS, runs)
        print(json.dumps({"loses the margin": world.__name__, **found, "pairs": pairs}), flush=True)
        better.append(found[CheckAnswer.BETTER])
        not_worse.append(found[CheckAnswer.NOT_WORSE])
    for world, answer in CHANGES:
        found, pairs = answers(world, TASKS, runs)
        # What is better is also not worse.
        better_too = found[CheckAnswer.BETTER] if answer is CheckAnswer.NOT_WORSE else 0.0
        power = found[answer] + better_too
        fixed = fixed_pairs(world, answer, power, runs)
        costs.append({"world": world.__name__, "power": power, "pairs": pairs})
        costs[-1] |= {"fixed_pairs": fixed, "ratio": pairs / fixed}
        print(json.dumps(costs[-1]), flush=True)
    # Few runs leave room for chance.
    slack, ratio = (3 * (0.05 * 0.95 / runs) ** 0.5, 0.9) if given.short else (0.0, 0.7)
    undecided, decided = advised(min(runs, FEW_RUNS))
    ratios = [one["ratio"] for one in costs]
    return report(
        [
            at_most("a better that is wrong", Kind.SHARE, [max(better)], 0.05 + slack),
            at_most("a not worse that is wrong", Kind.SHARE, [max(not_worse)], 0.05 + slack),
            at_least(
                "the same skill is neither better nor worse", Kind.SHARE, [min(same)], 0.95 - slack
            ),
            at_most("pairs, to a fixed test of equal power", Kind.PEER, [max(ratios)], ratio),
            at_least("undecided, then decided by the advised tasks", Kind.SHARE, [decided], 0.6),
        ],
        undecided=undecided,
        costs=costs,
    )


if __name__ == "__main__":
    sys.exit(main())

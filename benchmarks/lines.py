"""Count the useless and harmful lines in a skill before and after its lines are judged.

    nice python benchmarks/lines.py [RUNS]

Each step proposes a bundle of 1 to 4 edits of known effect, which the default gate judges whole. At
the end, draws leave out a random part of the lines that came in together, as a training without a
budget does before its release test. See `skillwright.evaluation.gates.lines`.
"""

import sys
from random import Random

import numpy as np

from gates_study.duel import SimulatedDuel, result_of, task_ids
from gates_study.worlds import EDITS, MAIN, Cell, Rates, Run
from measuring import Kind, at_least, at_most, report
from skillwright.evaluation import ExploreGate, Terms
from skillwright.evaluation.gates.current import CurrentSkill
from skillwright.evaluation.gates.lines import LEAST_PRICE, MOST_DRAWS, Bundle, LineEffects
from skillwright.evaluation.verdict import Seen

STEPS, MOST_EDITS, TASKS = 20, 4, 40
WORLDS = ("mixed", "mostly harmful", "mostly useless")
SHARES = {"mixed": (0.5, 0.3, 0.2), "mostly harmful": (0.3, 0.1, 0.6)}
SHARES["mostly useless"] = (0.8, 0.1, 0.1)

Line = tuple[int, int]
"""Kind of an edit (1 helps, -1 harms, 0 nothing) and the seed of its effect."""


def rates_with(run: Run, lines: list[Line]) -> Rates:
    """Return the rates of the initial skill with lines."""
    rates = run.initial
    for kind, seed in lines:
        if kind:
            rng = np.random.default_rng(seed)
            rates = EDITS[run.cell.edits](rates, kind, run.task_types, rng)
    return rates.copy()


def play(mixture: str, number: int) -> list[float]:
    """Return gain and lines of each kind before and after, and the rollouts of judging lines."""
    run, gate, ids = (
        Run(Cell(MAIN, mixture, TASKS, 10**6), number, "lines"),
        ExploreGate(),
        task_ids(TASKS),
    )
    first = {one: (float(got), 1) for one, got in zip(ids, run.draw_all(run.initial), strict=True)}
    seen, lines, bundles, edits = (Seen(first),), list[Line](), list[Bundle](), Random(number)
    alone = list[Line]()
    for _ in range(STEPS):
        kinds = edits.choices((0, 1, -1), SHARES[mixture], k=edits.randint(1, MOST_EDITS))
        new = [(kind, edits.randrange(2**32)) for kind in kinds]
        current = rates_with(run, [*alone, *lines])
        duel = SimulatedDuel(run, current, rates_with(run, [*alone, *lines, *new]))
        terms = Terms(seed=number, seen=seen, train=run.train(current))
        verdict = result_of(gate.judge(duel, gate.ledger(0.05, 1), terms))
        seen += (verdict.seen or Seen({}),)
        if not verdict.accepted:
            continue
        if len(new) == 1:
            alone += new
            continue
        low, high = verdict.interval or (0.0, 0.0)
        bundles.append(Bundle(len(new), verdict.effect or 0.0, (high - low) / 3.92))
        lines += new
    kept, played = lines, 0
    if bundles:
        belief = CurrentSkill.of(ids, seen).belief
        effects, random = LineEffects(bundles, belief), Random(number)
        while more := effects.more(LEAST_PRICE, min(MOST_DRAWS, 2 * TASKS) - played):
            for _ in range(more):
                out, at = effects.leave_out(random), random.randrange(TASKS)
                rest = [line for line, gone in zip(lines, out, strict=True) if not gone]
                reward = run.draw(rates_with(run, [*alone, *rest]), np.array([at]))[0]
                effects.add([(out, float(belief.expected[at] - reward))])
            played += more
        if played:
            kept = [one for one, gain in zip(lines, effects.gains, strict=True) if gain > 0]
    found = [float(played)]
    for some in (lines, kept):
        counts = [float(sum(kind == one for kind, _ in [*alone, *some])) for one in (1, 0, -1)]
        found += [run.gain(rates_with(run, [*alone, *some])), *counts]
    return found


def main() -> int:
    """Play all worlds, print a table and one JSON object."""
    runs, checks, cells = int(sys.argv[1]) if sys.argv[1:] else 100, [], {}
    for world in WORLDS:
        table = np.array([play(world, number) for number in range(runs)])
        played, *both = (float(one) for one in table.mean(0))
        before, after = both[:4], both[4:]
        moved = table[:, 5] - table[:, 1]
        error = float(moved.std(ddof=1) / runs**0.5)
        print(f"{world}: {played:.0f} rollouts; gain, helpful, useless, harmful lines")
        for name, row in (("before", before), ("after", after)):
            print(f"  {name:6} {row[0]:+.3f} {row[1]:6.1f} {row[2]:6.1f} {row[3]:6.1f}")
        print(f"  change of the gain {moved.mean():+.3f} (se {error:.3f})")
        cells[world] = {"rollouts": played, "before": before, "after": after, "se": error}
        checks.append(
            at_most(f"{world}: harmful lines left", Kind.SHARE, [after[3] / before[3]], 0.85)
        )
        checks.append(at_least(f"{world}: gain kept", Kind.SHARE, [after[0] / before[0]], 0.85))
    return report(checks, cells=cells, runs=runs)


if __name__ == "__main__":
    sys.exit(main())

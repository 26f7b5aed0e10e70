"""What gates keep of the true gain, and how often they are wrong: simulated runs with known truth.

    nice python benchmarks/gates.py --jobs 2

Runs are played through the project's own gate classes, by a `Duel` whose sides succeed by chance
at known rates, and through two rules that know nothing of noise. See `docs/gates_study.md`. The
whole takes about an hour of one core; `--short` takes seconds and holds generous bounds only. The
last line is one JSON object; `--results` also writes what every cell says.
"""

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import numpy as np  # noqa: E402

from gates_study.measure import measure  # noqa: E402
from gates_study.plan import TASKS, Sizes, Work, parts, short, whole  # noqa: E402
from gates_study.power import power_row  # noqa: E402
from gates_study.rules import Outcome, play  # noqa: E402
from gates_study.summary import (  # noqa: E402
    TARGETS,
    Row,
    Table,
    brief,
    cell_summary,
    short_bounds,
    targets,
)
from gates_study.worlds import MAIN, WORLDS, make_run  # noqa: E402
from measuring import Kind, at_least, report  # noqa: E402

Tables = dict[str, Table]
RESULTS = Path(__file__).with_name("gates_results.json")


def main() -> int:
    """Simulate, print a table and one JSON object."""
    arguments = _arguments()
    if arguments.measure:
        print(json.dumps(measure()))
        return 0
    sizes = Sizes(arguments.decisive_runs, arguments.runs, arguments.proving_runs)
    plan = short() if arguments.short else whole(sizes)
    context = multiprocessing.get_context("fork")
    with context.Pool(arguments.jobs) if arguments.jobs > 1 else nullcontext() as pool:
        each = pool.imap if pool else map
        rows = []
        for row in simulate(parts(plan, sizes.part), each):
            rows.append(row)
            print("\n".join(_lines(row)), flush=True)
        power = [row for row in each(_power, power_cells(sizes.usual, arguments.short)) if row]
    checks = short_bounds(rows) if arguments.short else targets(rows)
    if arguments.results:
        write(arguments.results, rows, power, checks)
    return report(
        [
            at_least(name, Kind.SHARE, [one["value"]], one["least"])
            if arguments.short
            else at_least(f"{name}: every cell holds", Kind.COUNT, [float(one["ok"])], 1)
            for name, one in checks.items()
        ],
        targets=TARGETS,
        met=checks,
        power=power,
        cells=len(rows),
        short=arguments.short,
    )


def simulate(works: list[Work], each: Callable[..., Iterable[Tables]] = map) -> Iterator[Row]:
    """Play all runs and summarize them, cell by cell in the order of the plan.

    Args:
        works: What to play; the work of a cell stands together.
        each: ``map``, or that of a pool of processes which keeps the order.
    """
    played = zip(works, each(_play, works), strict=True)
    for cell, of_cell in groupby(played, key=lambda one: one[0].cell):
        found: dict[str, list[Table]] = {}
        for _, tables in of_cell:
            for rule, table in tables.items():
                found.setdefault(rule, []).append(table)
        yield cell_summary(cell, {rule: np.concatenate(parts) for rule, parts in found.items()})


def power_cells(runs: int, is_short: bool) -> list[tuple[str, int, int]]:
    """Return in which worlds, with how many tasks and how often the printed power is tried."""
    if is_short:
        return [(MAIN, 40, 60)]
    return [(world, tasks, runs) for world in WORLDS for tasks in TASKS]


def _power(cell: tuple[str, int, int]) -> Row | None:
    return power_row(*cell)


def _play(work: Work) -> Tables:
    outcomes: dict[str, list[Outcome]] = {rule: [] for rule in work.rules}
    for number in range(work.first, work.last):
        run = make_run(work.cell, number)
        for rule in work.rules:
            outcomes[rule].append(play(rule, run))
    return {rule: np.array(of_rule) for rule, of_rule in outcomes.items()}


def write(path: Path, rows: list[Row], power: list[Row], checks: dict[str, Row]) -> None:
    """Write what every cell says, one per line."""
    lines = ",\n".join(json.dumps(brief(row)) for row in rows)
    rest = f'"power": {json.dumps(power)},\n"met": {json.dumps(checks)}'
    path.write_text(f'{{"cells": [\n{lines}\n],\n{rest}}}\n', encoding="utf-8")


def _lines(row: Row) -> Iterable[str]:
    lost = f", {row['lost']:.0%} lost" if row["lost"] else ""
    yield f"{row['world']}, {row['mixture']}, {row['tasks']} tasks, {row['steps']} steps{lost}"
    for rule, one in row["rules"].items():
        low, high = one["not_better_95"]
        yield (
            f"  {rule:16} rollouts {one['rollouts']:7.0f}, current {one['current']:+.4f}, "
            f"released {one['released']:+.4f} (se {one['released_se']:.4f}) in {one['out']:.1%}, "
            f"not better {one['not_better']:.1%} ({low:.1%} to {high:.1%}), "
            f"worse {one['worse']:.1%}"
        )
        if "current_of_strict" in one:
            ratios = [
                f"{name} {one[f'{name}_of_strict']:.3f} (se {one[f'{name}_of_strict_se']:.3f})"
                for name in ("current", "released")
            ]
            at = f"of strict at equal rollouts ({one['strict_draws']:.2f} draws)"
            yield f"  {'':16} {at}: {', '.join(ratios)}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    usual = Sizes()
    parser.add_argument("--runs", type=int, default=usual.usual, help="runs of a cell")
    parser.add_argument("--decisive-runs", type=int, default=usual.decisive, metavar="RUNS")
    parser.add_argument("--proving-runs", type=int, default=usual.proving, metavar="RUNS")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--results", type=Path, help=f"write every cell there, as {RESULTS.name}")
    parser.add_argument("--short", action="store_true", help="a few cells with few runs")
    parser.add_argument("--measure", action="store_true", help="measure the fifth world's rates")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

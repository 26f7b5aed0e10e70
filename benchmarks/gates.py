"""What rules for accepting edits gain at equal total cost, in simulated runs of known truth.

    nice python benchmarks/gates.py --parts parts.jsonl --results benchmarks/gates_results.json

A run has a budget in rollouts, for train rollouts, the optimizer's calls, validation draws and the
release test, and takes as many steps as fit. The project's own gate classes decide, and rules of
other programs. See `docs/gates_study.md`.

Finished parts are kept in ``--parts``, so that a stopped study resumes there; ``--minutes`` stops
it early, ``--processes`` plays parts at the same time. ``--short`` takes seconds and holds generous
bounds only. The last line is one JSON object.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import numpy as np  # noqa: E402

from gates_study.measure import measure  # noqa: E402
from gates_study.plan import Work, short, whole  # noqa: E402
from gates_study.rules import play  # noqa: E402
from gates_study.summary import (  # noqa: E402
    TARGETS,
    Row,
    Table,
    cell_summary,
    short_bounds,
    targets,
    where,
)
from gates_study.worlds import Cell  # noqa: E402
from measuring import Kind, at_least, report  # noqa: E402

RESULTS = Path(__file__).with_name("gates_results.json")
Parts = dict[Work, list[list[float]]]
"""Finished work: outcomes by run."""


def main() -> int:
    """Simulate, print a table and one JSON object."""
    arguments = _arguments()
    if arguments.measure:
        print(json.dumps(measure()))
        return 0
    plan = short() if arguments.short else whole(arguments.runs)
    ends = time.monotonic() + 60 * arguments.minutes
    done = simulate(
        plan, arguments.parts, lambda: time.monotonic() < ends, processes=arguments.processes
    )
    rows = summarize(done)
    print("\n".join(line for row in rows for line in _lines(row)))
    checks = short_bounds(rows) if arguments.short else targets(rows)
    if arguments.results:
        write(arguments.results, rows, checks)
    return report(
        [
            at_least(name, Kind.SHARE, [one["value"]], one["least"])
            if arguments.short
            else at_least(f"{name}: every cell holds", Kind.COUNT, [float(one["ok"])], 1)
            for name, one in checks.items()
        ],
        targets=TARGETS,
        met=checks,
        cells=len(rows),
        short=arguments.short,
    )


def simulate(
    plan: Sequence[Work],
    kept: Path | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    *,
    processes: int = 1,
) -> Parts:
    """Play what is not yet finished, part by part.

    Args:
        plan: The work, in order.
        kept: File of finished parts, one JSON line each; they are read, and new ones are added.
        goes_on: Is asked before each part.
        processes: Parts that are played at the same time.
    """
    done = read_parts(kept) if kept else {}
    for work, outcomes in _played([one for one in plan if one not in done], goes_on, processes):
        done[work] = outcomes
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            line = json.dumps({**asdict(work), "outcomes": outcomes})
            with kept.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}")  # the line before may have been cut off
    return {work: done[work] for work in plan if work in done}


def _played(
    plan: Iterable[Work], goes_on: Callable[[], bool], processes: int
) -> Iterator[tuple[Work, list[list[float]]]]:
    """Yield finished parts with their outcomes, in the order in which they end."""
    if processes == 1:
        for work in plan:
            if not goes_on():
                return
            yield work, _outcomes(work)
        return
    waiting, running = iter(plan), dict[Future[list[list[float]]], Work]()
    with ProcessPoolExecutor(processes) as pool:
        while True:
            while len(running) < processes and goes_on() and (work := next(waiting, None)):
                running[pool.submit(_outcomes, work)] = work
            if not running:
                return
            for one in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(one), one.result()


def _outcomes(work: Work) -> list[list[float]]:
    outcomes = play(work.cell, work.rule, range(work.first, work.last))
    return [[round(float(one), 5) for one in outcome] for outcome in outcomes]


def read_parts(path: Path) -> Parts:
    """Read finished parts; a line that was cut off is left out."""
    parts: Parts = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            part = json.loads(line)
        except ValueError:
            continue
        work = Work(Cell(**part["cell"]), part["rule"], part["first"], part["last"])
        parts[work] = part["outcomes"]
    return parts


def summarize(done: Parts) -> list[Row]:
    """Summarize finished parts by cell."""
    cells: dict[Cell, dict[str, list[Table]]] = {}
    for work in sorted(done, key=lambda one: one.first):
        tables = cells.setdefault(work.cell, {}).setdefault(work.rule, [])
        if work.first == sum(map(len, tables)):  # runs without a gap
            tables.append(np.array(done[work], np.float64))
    return [
        cell_summary(cell, {rule: np.concatenate(tables) for rule, tables in rules.items()})
        for cell, rules in cells.items()
    ]


def write(path: Path, rows: Sequence[Row], checks: dict[str, Row]) -> None:
    """Write the summary of every cell, one per line."""
    lines = ",\n".join(json.dumps(row) for row in sorted(rows, key=where))
    path.write_text(f'{{"cells": [\n{lines}\n],\n"met": {json.dumps(checks)}}}\n', encoding="utf-8")


def _lines(row: Row) -> Iterable[str]:
    yield where(row)
    for rule, one in row["rules"].items():
        low, high = one["not_better_95"]
        yield (
            f"  {rule:16} released {one['released']:+.3f} (se {one['released_se']:.3f}, "
            f"n {one['runs']}), current {one['current']:+.3f}, not better {one['not_better']:.1%} "
            f"({low:.1%} to {high:.1%}), cost {one['cost']:.0f}, tests {one['tests']:.0f}, "
            f"steps {one['steps']:.1f}"
        )
    if share := row.get("of_strict", {}).get("share"):
        yield f"  share of strict {share:.2f} (se {row['of_strict']['share_se']:.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="most runs of a cell and rule")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--processes", type=int, default=1, help="parts played at the same time")
    parser.add_argument("--parts", type=Path, help="file of finished parts, read and extended")
    parser.add_argument("--results", type=Path, help=f"write every cell there, as {RESULTS.name}")
    parser.add_argument("--short", action="store_true", help="a few cells with few runs")
    parser.add_argument("--measure", action="store_true", help="measure the fifth world's rates")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Runs every benchmark and ends with one table; the exit code is 1 if any target is missed.

    .venv/bin/python benchmarks/measuring/everything.py [NAME ...]

Names choose some of them. Those that take an hour run by themselves: `rl_study.py` and
`noisy_household.py`; of `check.py`, `gates.py` and `referee.py` the short form runs here.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1]
BY_THEMSELVES = ("lm_study", "noisy_household", "real_rows", "rl_study", "small_models", "tis")
OPTIONS = {"check": ("--short",), "gates": ("--short",), "referee": ("--short",)}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    name: str  # the benchmark
    measured: str  # what was measured
    target: str  # the bound, as text
    value: str  # the figure, as text
    ok: bool  # whether the target holds


def names() -> list[str]:
    """Return the benchmarks that run here."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in BY_THEMSELVES)


def play(name: str) -> list[Row]:
    """Run one benchmark, show what it says, and return its rows."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *OPTIONS.get(name, ())]
    print(f"\n{name}", flush=True)
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said = line.strip() or said
            print(f"  {line.rstrip()[:400]}", flush=True)
    return rows_of(name, said, process.returncode)


def rows_of(name: str, last: str, exit_code: int) -> list[Row]:
    """Read the last line of a benchmark; what did not finish is a row that is not ok.

    Args:
        name: The benchmark.
        last: The last line that it printed.
        exit_code: How it ended; 1 only says that a target is missed, and the rows say which.
    """
    try:
        printed: dict[str, Any] = json.loads(last)
        rows = [_row(name, check) for check in printed["checks"]]
    except (ValueError, KeyError, TypeError):
        return [Row(name, "runs to its end", "", f"exit code {exit_code}", ok=False)]
    if exit_code not in (0, 1) or not rows or (exit_code == 1 and all(row.ok for row in rows)):
        rows.append(Row(name, "runs to its end", "", f"exit code {exit_code}", ok=False))
    return rows


def _row(name: str, check: dict[str, Any]) -> Row:
    low, high = check["spread"]
    value = f"{check['value']:g}" + ("" if low == high else f" ({low:g} to {high:g})")
    return Row(name, f"{check['measured']}, {check['kind']}", check["target"], value, check["ok"])


def table(rows: Iterable[Row]) -> str:
    """Return the rows in columns."""
    cells = [("benchmark", "measured", "target", "value", "ok")]
    cells += [
        (row.name, row.measured, row.target, row.value, "yes" if row.ok else "NO") for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def main(asked: Sequence[str]) -> int:
    """Run what is asked for, all by default, and print the table."""
    unknown = set(asked) - set(names())
    if unknown:
        print(f"no benchmark {sorted(unknown)} runs here; there are {', '.join(names())}")
        return 2
    rows = [row for name in asked or names() for row in play(name)]
    print(f"\n{table(rows)}")
    missed = sum(not row.ok for row in rows)
    print(f"\n{len(rows) - missed} of {len(rows)} targets hold")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rows that others published, trained on by the product's commands, beside programs.

    nice python benchmarks/real_rows.py
    python benchmarks/real_rows.py --export --sets r8 --root rows

Rows are read out of installed packages (`make setup` installs them) and never kept in the project.
Each data set is written as CSV, then `skillwright init` and `skillwright train` run on it, with the
scripted agent and optimizer. Stop it whenever you like: the same command resumes. The last line is
one JSON object; `--short` takes few rows, and no score means anything.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from rows_study.one_run import export, play, play_each
from rows_study.sets import SETS

RESULTS = Path(__file__).resolve().parent / "real_rows_results"


def main() -> int:
    """Run what is missing, and print the success rates."""
    arguments = _arguments()
    root, short = arguments.root, arguments.short
    chosen = [(SETS[name], seed) for seed in arguments.seeds for name in arguments.sets]
    if arguments.export:
        for real, seed in chosen:
            export(real, root, seed, short=short)
        return 0
    return play_each(
        {
            f"{real.name}-s{seed}": partial(play, real, seed, root, arguments.results, short=short)
            for real, seed in chosen
        }
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--export", action="store_true", help="only write the rows as CSV")
    parser.add_argument("--root", type=Path, help="where rows and runs are kept")
    parser.add_argument("--results", type=Path, help=f"{RESULTS.name}; with --short, the root")
    parser.add_argument("--short", action="store_true", help="few rows")
    arguments = parser.parse_args()
    short = arguments.short
    arguments.root = (arguments.root or Path("runs", f"real_rows{'_short' * short}")).resolve()
    arguments.results = arguments.results or (arguments.root if short else RESULTS)
    return arguments


if __name__ == "__main__":
    sys.exit(main())

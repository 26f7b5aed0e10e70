"""What each part of the recipe is worth: `examples/rl/alfworld.yaml` over seeds, and its ablations.

    nice python benchmarks/rl_study.py --seeds 5 --games 200 --jobs 2

An ablation and a seed are a run of their own in a folder below `--root`, with a result in one JSON
file below `--results`; a result that is there is not measured again. Stop it whenever you like: the
same command resumes. Homes and games are of no seed that anything was chosen on; within a run val
chooses, and test is opened at its end; `openings.jsonl` beside the results counts the openings. The
last line is one JSON object; `--short` is one seed with small numbers, and holds only that all is
there.
"""

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from skillwright.core import SkillwrightError
from study.ablations import ABLATIONS, BENCHMARKS, GROWTH, SHORT
from study.one_run import play
from study.summary import summary

RESULTS = BENCHMARKS / "rl_study_results"


def main() -> int:
    """Run what is missing, and print the summary."""
    arguments = _arguments()
    overrides = (*(SHORT if arguments.short else ()), *arguments.overrides)
    chosen = [name for name in arguments.ablations if name != GROWTH]
    wanted = [(name, seed) for seed in range(arguments.seeds) for name in chosen]
    if GROWTH in arguments.ablations:  # by the weights of another run, so after it
        wanted += [(GROWTH, seed) for seed in range(arguments.seeds)]
    folders = (arguments.root, arguments.results)
    results, faults = [], []
    # A process per run: its CPU seconds are the run's, and its torch has one thread.
    pool = ProcessPoolExecutor(
        arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with pool:
        begun: dict[Future, tuple[str, int]] = {
            pool.submit(play, name, seed, arguments.games, folders, overrides): (name, seed)
            for name, seed in wanted
        }
        for done in as_completed(begun):
            try:
                results.append(done.result())
            except SkillwrightError as fault:
                faults.append(begun[done])
                print(f"{begun[done]}: {fault}", file=sys.stderr, flush=True)
    figures = summary(results, wanted)
    if arguments.short:
        figures |= {"short": True, "ok": not figures["missing"]}
    print(json.dumps(figures))
    return 1 if faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, help="how many, from 0 on; 5, or 1 if --short")
    parser.add_argument("--games", type=int, help="test games of a seed; 200, or 12 if --short")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--ablations", nargs="+", choices=list(ABLATIONS), default=list(ABLATIONS))
    parser.add_argument("--root", type=Path, help="where runs are kept")
    parser.add_argument("--results", type=Path, help=f"{RESULTS.name}; with --short, the root")
    parser.add_argument("--short", action="store_true", help="one seed with small numbers")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    short = arguments.short
    arguments.seeds = arguments.seeds or (1 if short else 5)
    arguments.games = arguments.games or (12 if short else 200)
    arguments.root = arguments.root or Path("runs", "rl_study_short" if short else "rl_study")
    arguments.results = arguments.results or (arguments.root if short else RESULTS)
    return arguments


if __name__ == "__main__":
    sys.exit(main())

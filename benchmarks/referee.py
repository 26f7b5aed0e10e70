"""Skillwright, SkillOpt and gepa train on the same noisy agents, for the same number of plays.

    nice .venv/bin/python benchmarks/referee.py [--short] [--world NAME] [--trainer NAME]
        [--budget CALLS] [--seeds 20] [--again NAME] [--workers 1] [--minutes M] [--kept FILE]

Each trainer gets the same tasks, the same optimizer and as many plays of the agent as the budget
says; what it releases is scored by the true success rate on sealed tasks. See `docs/referee.md`.
`--world rules:3` is a world of rules whose numbers are drawn with the seed 3.

Finished trainings are kept in benchmarks/referee_study/results.jsonl and not run again; `--again`
forgets those of a trainer. `--kept` names another file. Files are merged by joining them: of equal
trainings, the last counts. After `--minutes`, no training is begun. The whole takes about two hours
of one core. The last line is one JSON object.
"""

import argparse
import json
import logging
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Kind, at_least, at_most, report
from referee_study.episodes import Household
from referee_study.numbers import KINDS, world_of
from referee_study.summary import OURS, cells, checks, figures, is_worse, lines
from referee_study.trainers import OVERSHOOT, TRAINERS, Decision
from referee_study.worlds import Bench, World

KEPT = Path(__file__).with_name("referee_study") / "results.jsonl"
BUDGETS = (400, 800, 1600, 3200)
SEEDS = 20
Row = dict[str, Any]


class Job(NamedTuple):
    """One training."""

    world: str
    trainer: str
    budget: int
    seed: int


def play(job: Job, world: World | None = None) -> Row:
    """Train once, in a folder that is thrown away, and score what came of it."""
    bench = Bench(world or world_of(job.world, job.seed))
    with tempfile.TemporaryDirectory() as folder:
        trained = TRAINERS[job.trainer](bench, job.budget, job.seed, Path(folder))
    calls = bench.calls
    exact = bench.world.is_exact
    return {
        **job._asdict(),
        "start": round(bench.value(""), 4),
        "released": round(bench.value(trained.released), 4),
        "current": round(bench.value(trained.current), 4),
        "nothing": not trained.released.strip(),
        "calls": calls,
        "candidates": len(trained.decisions),
        "missed": missed(bench, trained.decisions) if exact else None,
    }


def missed(bench: Bench, decisions: Sequence[Decision]) -> int:
    """Return the longest streak of rejected candidates that are all truly better."""
    longest = streak = 0
    for one in decisions:
        is_better = bench.value(one.after) > bench.value(one.before) + 1e-9
        streak = streak + 1 if is_better and not one.accepted else 0
        longest = max(longest, streak)
    return longest


def jobs(
    worlds: Sequence[str], budgets: Sequence[int], seeds: int, trainers: Sequence[str] = ()
) -> Iterator[Job]:
    """List the trainings, seeds first, so that what is known early is balanced."""
    for seed in range(seeds):
        for world in worlds:
            for budget in budgets:
                for trainer in trainers or TRAINERS:
                    yield Job(world, trainer, budget, seed)


def short() -> int:
    """Train each trainer once or twice on small budgets, and check that budgets hold."""
    rows = [play(job) for job in jobs(["rules", "rows"], [400], 2)]
    rows += [
        play(job, Household(job.seed, sizes=(20, 20, 10))) for job in jobs(["household"], [200], 1)
    ]
    for line in lines(cells(rows)):
        print(line)
    over = [row["calls"] / row["budget"] for row in rows]
    worse = sum(is_worse(row) for row in rows if row["trainer"] == OURS)
    return report(
        [
            at_most("most plays over the budget", Kind.SHARE, [max(over)], OVERSHOOT),
            at_least("trainings that ended", Kind.COUNT, [len(rows)], len(TRAINERS) * 5),
            at_most("worse skills released by Skillwright", Kind.COUNT, [worse], 0),
        ],
        short=True,
    )


def played(todo: Iterator[Job], workers: int, minutes: float | None) -> Iterator[Row | None]:
    """Play trainings in several processes; yield each when it is finished, ``None`` for a failure.

    Args:
        todo: The trainings.
        workers: Number of processes.
        minutes: Time after which none is begun; those in progress end.
    """
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running: dict[Future[Row], Job] = {
            pool.submit(_quiet, one): one for one in _some(todo, workers)
        }
        while running:
            for one in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(one)
                if error := one.exception():
                    print(f"{job} failed", *traceback.format_exception(error), file=sys.stderr)
                yield None if error else one.result()
                if ends is None or time.monotonic() < ends:
                    running |= {pool.submit(_quiet, more): more for more in _some(todo, 1)}


def _quiet(job: Job) -> Row:
    logging.disable(logging.WARNING)
    return play(job)


def _some(todo: Iterator[Job], count: int) -> list[Job]:
    return list(islice(todo, count))


def main() -> int:
    """Run what is not known yet, and print a table and one JSON object."""
    asked = _arguments()
    logging.disable(logging.WARNING)
    if asked.short:
        return short()
    rows = read_kept(asked.kept)
    if asked.again:
        rows = [row for row in rows if row["trainer"] != asked.again]
        asked.kept.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    known = {_job(row) for row in rows}
    worlds, budgets = asked.world or list(KINDS), asked.budget or BUDGETS
    planned = jobs(worlds, budgets, asked.seeds, asked.trainer)
    todo = (job for job in planned if job not in known)
    failed = 0
    for row in played(todo, asked.workers, asked.minutes):
        if row is None:
            failed += 1
            continue
        rows.append(row)
        with asked.kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    groups = cells(row for row in rows if row["world"] in worlds)
    for line in lines(groups):
        print(line)
    shown = {", ".join(map(str, key)): figures(some) for key, some in sorted(groups.items())}
    return report(
        [at_most("trainings that failed", Kind.COUNT, [failed], 0), *checks(groups)], cells=shown
    )


def read_kept(path: Path = KEPT) -> list[Row]:
    """Read the finished trainings; of equal ones, the last."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return list({_job(row): row for row in map(json.loads, text.splitlines())}.values())


def _job(row: Row) -> Job:
    return Job(*(row[name] for name in Job._fields))


def _world(name: str) -> str:
    try:
        world_of(name, 0)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return name


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small runs, less than a minute")
    parser.add_argument("--world", action="append", type=_world, help="rules, or rules:SEED, ...")
    parser.add_argument("--trainer", action="append", choices=list(TRAINERS), default=[])
    parser.add_argument("--budget", action="append", type=int, help="plays of the agent")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--again", metavar="NAME", help="forget a trainer's finished trainings")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="begin no training after that time")
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of the finished trainings")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""Skillwright, SkillOpt and gepa train on the same noisy agents, for the same number of plays.

    nice .venv/bin/python benchmarks/referee.py [--short] [--world NAME] [--trainer NAME]
        [--budget CALLS] [--seeds 20] [--again NAME]

Each trainer gets the same tasks, the same optimizer and as many plays of the agent as the budget
says; what it releases is scored by the true success rate on sealed tasks. See `docs/referee.md`.
Finished trainings are kept in benchmarks/referee_study/results.jsonl and not run again; `--again`
forgets those of a trainer. The whole takes about three hours of one core. The last line is one JSON
object.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Kind, at_least, at_most, report
from referee_study.episodes import Clerk, Household
from referee_study.summary import OURS, cells, checks, figures, is_worse, lines
from referee_study.trainers import OVERSHOOT, TRAINERS, Decision
from referee_study.worlds import Bench, Proposals, Rates, Rules, World

KEPT = Path(__file__).with_name("referee_study") / "results.jsonl"
BUDGETS = (400, 800, 1600, 3200)
SEEDS = 20
WORLDS: dict[str, Callable[[int], World]] = {"rules": Rules, "rows": Clerk, "household": Household}
OTHERS: dict[str, Callable[[int], World]] = {
    "rules, 12 kinds": partial(
        Rules, kinds=12, rates=Rates(0.9, 0.6, 0.4, 0.2), proposals=Proposals(0.2, 0.2, 0.3, 0.3)
    ),
    "rules, uneven tasks": partial(Rules, powers=(0.2, 1.0, 5.0)),
    "rows, 10% noise": partial(Clerk, noise=0.1),
    "household, 10% noise": partial(Household, noise=0.1),
}
"""Worlds of the same kinds with other numbers, which only run where they are named."""
Row = dict[str, Any]


class Job(NamedTuple):
    """One training."""

    world: str
    trainer: str
    budget: int
    seed: int


def play(job: Job, world: World | None = None) -> Row:
    """Train once, in a folder that is thrown away, and score what came of it."""
    bench = Bench(world or (WORLDS | OTHERS)[job.world](job.seed))
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


def main() -> int:
    """Run what is not known yet, and print a table and one JSON object."""
    asked = _arguments()
    logging.disable(logging.WARNING)
    if asked.short:
        return short()
    rows = read_kept()
    if asked.again:
        rows = [row for row in rows if row["trainer"] != asked.again]
        KEPT.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    known = {Job(*(row[name] for name in Job._fields)) for row in rows}
    worlds, budgets = asked.world or list(WORLDS), asked.budget or BUDGETS
    for job in jobs(worlds, budgets, asked.seeds, asked.trainer):
        if job not in known:
            rows.append(play(job))
            with KEPT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    groups = cells(row for row in rows if row["world"] in worlds)
    for line in lines(groups):
        print(line)
    shown = {", ".join(map(str, key)): figures(some) for key, some in sorted(groups.items())}
    return report(checks(groups), cells=shown)


def read_kept() -> list[Row]:
    """Read the finished trainings."""
    text = KEPT.read_text(encoding="utf-8") if KEPT.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="small runs, less than a minute")
    parser.add_argument("--world", action="append", choices=[*WORLDS, *OTHERS])
    parser.add_argument("--trainer", action="append", choices=list(TRAINERS), default=[])
    parser.add_argument("--budget", action="append", type=int, help="plays of the agent")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--again", metavar="NAME", help="forget a trainer's finished trainings")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

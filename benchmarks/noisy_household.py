"""Whole training runs with an agent whose answers vary: which gate keeps what it learns?

The scripted household agent takes a random action in a share of its turns, drawn from seed and
prompt: runs repeat, and the two sides of a comparison vary independently, as with a language model.
Everything else is a training as a user starts it: 40 train, 40 val and 100 sealed test games, 4
epochs, at most 7 decisions, the scripted analyst, who proposes useful, useless and harmful edits.
Each run seed has houses of its own, the same for all gates.

    .venv/bin/python benchmarks/noisy_household.py [--runs 20] [--short] [--again GATE]

The target: over the runs of each share, the released skill of `explore` gains at least 0.9 of what
the strict gate's gains on the sealed test, and no harmful rule is in effect in a released skill of
it. A harmful line that a later one overrides has no effect on this agent, which follows the later;
such lines come in beside useful edits, with every gate that knows no proof, and are counted apart.
Finished runs are kept in benchmarks/noisy_household.json and not run again; `--again` forgets those
of a gate.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.config.run import validated
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.worlds.scripted.skilltext import read_conduct, read_stances

KEPT = Path(__file__).with_suffix(".json")
GATES = ("explore", "strict", "paired")
SHARES = (0.05, 0.1, 0.2)
RUNS = 20
FIRST_SEED = 101
MIN_OF_STRICT = 0.9

Job = tuple[float, str, int]


def settings(job: Job, root: str, *, short: bool) -> dict[str, Any]:
    """Return the configuration of a run."""
    share, gate, seed = job
    train, val, test = (16, 16, 24) if short else (40, 40, 100)
    return {
        "run": {"name": "run", "root": root, "seed": seed},
        "env": {
            "name": "alfworld",
            "data": {"kind": "generated", "train": train, "val": val, "test": test},
        },
        "models": {
            "target": {"backend": "scripted", "model": "household", "noise": share},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "train": {"epochs": 2 if short else 4, "batch_size": train},
        "evaluation": {"gate": {"kind": gate}},
    }


def play(task: tuple[Job, bool]) -> dict[str, Any]:
    """Train once, in a folder that is thrown away, and return the outcome."""
    job, short = task
    with tempfile.TemporaryDirectory() as root:
        config = validated(settings(job, root, short=short), "noisy_household")

        async def train() -> tuple[Any, int]:
            with start_run(config, "") as run:
                report = await run_training(run, NullCallback())
                return report, sum(1 for _ in run.store.episodes())

        report, rollouts = asyncio.run(train())
    tables = report.test.tables
    rate = {name: table.overall.success_rate for name, table in tables.items()}
    judged = [*report.state.steps, *report.state.epochs]
    stances = read_conduct(report.best_skill).stances.values()
    harmful = {
        "lines": sum(stance.is_harmful for stance in read_stances(report.best_skill)),
        "in_effect": sum(stance.is_harmful for stance in stances),
    }
    return {
        "share": job[0],
        "gate": job[1],
        "seed": job[2],
        "initial": rate["initial"],
        "released": rate["best"],
        "current": rate["final"],
        "accepted": sum(one.accepted for one in judged),
        "is_released": report.best_skill != report.initial_skill,
        "harmful": harmful,
        "rollouts": rollouts,
    }


def jobs(runs: int) -> Iterator[Job]:
    """List the runs, seeds first, so that what is known early is balanced."""
    for seed in range(FIRST_SEED, FIRST_SEED + runs):
        for share in SHARES:
            for gate in GATES:
                yield share, gate, seed


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of one share and gate."""
    gains = [row["released"] - row["initial"] for row in rows]
    spread = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    return {
        "runs": len(rows),
        "initial": statistics.fmean(row["initial"] for row in rows),
        "released": statistics.fmean(row["released"] for row in rows),
        "released_median": statistics.median(row["released"] for row in rows),
        "released_range": [min(r["released"] for r in rows), max(r["released"] for r in rows)],
        "current": statistics.fmean(row["current"] for row in rows),
        "gain": statistics.fmean(gains),
        "gain_se": spread,
        "nothing_released": sum(not row["is_released"] for row in rows),
        "with_harm": sum(row["harmful"]["in_effect"] > 0 for row in rows),
        "with_harmful_lines": sum(row["harmful"]["lines"] > 0 for row in rows),
        "accepted": statistics.fmean(row["accepted"] for row in rows),
        "rollouts": statistics.fmean(row["rollouts"] for row in rows),
    }


def main() -> None:
    """Run what is not known yet, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--short", action="store_true", help="one small run of each gate")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", choices=GATES, help="forget the finished runs of a gate")
    asked = parser.parse_args()
    if asked.short:
        rows = [play(((0.1, gate, FIRST_SEED), True)) for gate in GATES]
        print(json.dumps({"short": rows, "ok": all(row["rollouts"] for row in rows)}))
        return
    rows = json.loads(KEPT.read_text()) if KEPT.is_file() else []
    rows = [row for row in rows if row["gate"] != asked.again]
    known = {(row["share"], row["gate"], row["seed"]) for row in rows}
    todo = [(job, False) for job in jobs(asked.runs) if job not in known]
    with multiprocessing.get_context("spawn").Pool(asked.workers) as pool:
        for row in pool.imap(play, todo):
            rows.append(row)
            KEPT.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
            print(json.dumps(row), flush=True)
    figures: dict[str, Any] = {}
    ok = True
    for share in SHARES:
        chosen = {g: [r for r in rows if (r["share"], r["gate"]) == (share, g)] for g in GATES}
        found = {gate: summary(some) for gate, some in chosen.items()}
        found["of_strict"] = found["explore"]["gain"] / found["strict"]["gain"]
        holds = found["of_strict"] >= MIN_OF_STRICT and not found["explore"]["with_harm"]
        ok = ok and holds
        figures[f"{share:g}"] = found
    print(json.dumps({"shares": figures, "target_of_strict": MIN_OF_STRICT, "ok": ok}))


if __name__ == "__main__":
    main()

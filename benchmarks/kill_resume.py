"""What a hundred kills cost: SIGKILL at random moments of a run over HTTP, and `resume` each time.

Every run is `skillwright train` in a process of its own against an endpoint on this machine, in the
tiny world of tests/doors.py, four episodes at once. A moment is a number of requests that the
endpoint has seen, drawn between 1 and a tenth of the run. Each run is killed until twenty times; it
must end as the one that nobody disturbed: the same skills, decisions, scores and files, no
finished episode lost, and nothing asked again whose answer was stored. What is asked again are the
turns of episodes that were not finished, and the optimiser's calls in flight.

    .venv/bin/python benchmarks/kill_resume.py [--kills 100]
"""

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doors import ALL_RULES, ALL_WRONG, story
from killing import KilledRun, die_often, executioner

PLAN = [[ALL_WRONG], [ALL_RULES], ["Be quick."], [ALL_WRONG]]
LONG = {"train": {"epochs": 2, "batch_size": 6}, "rollout": {"max_concurrent": 4}}
KILLS_PER_RUN = 20


def measure(kills: int, root: Path) -> dict[str, Any]:
    """Kill runs until there were so many kills, and return what came of it."""
    luck = random.Random(1)
    with executioner(PLAN) as (server, killer):
        whole = KilledRun(root / "whole", server, killer, **LONG)
        whole.live()
        wanted, requests = story(whole.path), len(killer.asked)
        runs: list[KilledRun] = []
        different, repeats = 0, []
        while sum(run.kills for run in runs) < kills:
            before = len(killer.asked)
            run = KilledRun(root / f"run{len(runs)}", server, killer, **LONG)
            left = kills - sum(run.kills for run in runs)
            die_often(run, min(left, KILLS_PER_RUN), luck, longest=2 * requests // KILLS_PER_RUN)
            runs.append(run)
            different += story(run.path) != wanted
            # Every start asks both minds one small question.
            repeats.append(len(killer.asked) - before - requests - 2 * run.kills)
            print(
                f"run {len(runs)}: {run.kills} kills, {repeats[-1]} calls asked again", flush=True
            )
    figures = {
        "kills": sum(run.kills for run in runs),
        "runs": len(runs),
        "runs_that_ended_differently": different,
        "finished_episodes_lost": sum(len(run.lost) for run in runs),
        "stored_answers_asked_again": sum(len(run.repeated) for run in runs),
    }
    return {
        **figures,
        "requests_of_a_run": requests,
        "calls_asked_again_per_kill": round(sum(repeats) / figures["kills"], 2),
        "targets": {
            "runs_that_ended_differently": 0,
            "finished_episodes_lost": 0,
            "stored_answers_asked_again": 0,
        },
        "spread": {"calls_asked_again_per_run": [min(repeats), median(repeats), max(repeats)]},
        "ok": figures["kills"] >= kills and not sum(list(figures.values())[2:]),
    }


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description="Kill runs and resume them.")
    parser.add_argument("--kills", type=int, default=100)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(parser.parse_args().kills, Path(folder))))


if __name__ == "__main__":
    main()

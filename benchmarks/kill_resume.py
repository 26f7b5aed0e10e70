"""What a hundred kills cost: SIGKILL at random moments of a run over HTTP, and `resume` each time.

Every run is `skillwright train` in a process of its own against an endpoint on this machine, in the
tiny world of tests/doors.py, four episodes at once. A moment is a number of requests that the
endpoint has seen, drawn between 1 and a tenth of the run. Each run is killed until twenty times; it
must end as the one that nobody disturbed: the same skills, decisions, scores and files, no
finished episode lost, and nothing asked again whose answer was stored. The phases in which runs
were killed are printed: steps, decisions, draws that judge lines, release tests. What is asked
again are the turns of episodes that were not finished, and the optimizer's calls in flight.

    .venv/bin/python benchmarks/kill_resume.py [--kills 100]
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Check, Kind, at_least, at_most, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from doors import ALL_WRONG, ROOMS, rule, story
from killing import KilledRun, die_often, executioner

# An edit of several items, so that factorial draws judge its lines before the release test.
ITEMS = "\n".join(f"- {line}" for line in (*map(rule, ROOMS), "Be quick."))
PLAN = [[ALL_WRONG], [ITEMS], ["Be brief."], [ALL_WRONG]]
LONG = {"train": {"epochs": 2, "batch_size": 6}, "rollout": {"max_concurrent": 4}}
KILLS_PER_RUN = 20


def measure(kills: int, root: Path) -> tuple[list[Check], dict[str, Any]]:
    """Kill runs until there were so many kills; return the checks and what else was counted."""
    rng = random.Random(1)
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
            die_often(run, min(left, KILLS_PER_RUN), rng, longest=2 * requests // KILLS_PER_RUN)
            runs.append(run)
            different += story(run.path) != wanted
            # Every start asks both models one small question.
            repeats.append(len(killer.asked) - before - requests - 2 * run.kills)
            print(
                f"run {len(runs)}: {run.kills} kills, {repeats[-1]} calls asked again", flush=True
            )
    done = sum(run.kills for run in runs)
    lost, repeated = (sum(len(getattr(run, name)) for run in runs) for name in ("lost", "repeated"))
    checks = [
        at_least("kills", Kind.COUNT, [done], kills),
        at_most("runs that ended differently", Kind.COUNT, [different], 0),
        at_most("finished episodes lost", Kind.COUNT, [lost], 0),
        at_most("stored answers asked for again", Kind.COUNT, [repeated], 0),
    ]
    return checks, {
        "runs": len(runs),
        "requests_of_a_run": requests,
        "kills_by_latest_phase": dict(sum((run.phases for run in runs), Counter())),
        "calls_asked_again_per_kill": round(sum(repeats) / done, 2),
        "calls_asked_again_per_run": [min(repeats), median(repeats), max(repeats)],
    }


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser(description="Kill runs and resume them.")
    parser.add_argument("--kills", type=int, default=100)
    with tempfile.TemporaryDirectory() as folder:
        checks, figures = measure(parser.parse_args().kills, Path(folder))
    return report(checks, **figures)


if __name__ == "__main__":
    sys.exit(main())

"""How much work the demo is after installation, and what it ends with.

Each repeat is `skillwright demo` in a process and a folder of its own, with a run seed of its own.
The targets: its CPU time in pieces of plain work, which is timed before and after; at least 85% of
the held-out games solved with the best skill, and under 30% with the empty skill or the placebo.
Its seconds are printed beside the README's promise of under three minutes, which decides nothing
here: on a busy machine they say how busy it is.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Kind, at_least, at_most, compared, long_plain_s, report

REPEATS = 3
MOST_WORK = 70_000.0
"""The CPU time of one run, in pieces of plain work."""
MIN_BEST = 0.85
MAX_OTHERS = 0.30


def play(seed: int) -> tuple[float, float, dict[str, float]]:
    """Run the demo once; return its wall and CPU seconds, and the share solved per artifact."""
    command = Path(sys.executable).parent / "skillwright"
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), children_cpu_s()
        done = subprocess.run(
            [str(command), "demo", "--half", "text", "--json", "--set", f"run.seed={seed}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        wall_s, cpu_s = time.perf_counter() - started, children_cpu_s() - cpu
    tables = json.loads(done.stdout)["test"]["tables"]
    return wall_s, cpu_s, {name: row["overall"]["success_rate"] for name, row in tables.items()}


def children_cpu_s() -> float:
    """Return the CPU seconds of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, and print the checks."""
    seeds, played = iter(range(42, 42 + REPEATS)), []

    def once() -> float:
        played.append(play(next(seeds)))
        return played[-1][1]

    work = compared(once, REPEATS, long_plain_s)
    walls, cpus, shares = zip(*played, strict=True)
    best = min(share["best"] for share in shares)
    others = max(share[name] for share in shares for name in ("initial", "placebo"))
    checks = [
        at_most("CPU time", Kind.PLAIN, work, MOST_WORK),
        at_least("won with the best skill, worst seed", Kind.SHARE, [best], MIN_BEST),
        at_most("won with the empty skill or the placebo", Kind.SHARE, [others], MAX_OTHERS),
    ]
    return report(
        checks,
        wall_s=[round(wall, 1) for wall in walls],
        cpu_s=round(statistics.median(cpus), 1),
    )


if __name__ == "__main__":
    sys.exit(main())

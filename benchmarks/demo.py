"""How long the demo takes after installation, and what it ends with.

Each repeat is `skillwright demo` in a process and a folder of its own, with a run seed of its own.
The target is the README's promise: under 3 minutes on 2 cores, at least 85% of the held-out games
won with the best skill, and under 30% with the empty skill and with the placebo.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 3
MAX_WALL_S = 180.0
MIN_BEST = 0.85
MAX_OTHERS = 0.30


def play(seed: int) -> tuple[float, dict[str, float]]:
    """Run the demo once and return its seconds and the share of test games won per artefact."""
    command = Path(sys.executable).parent / "skillwright"
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        done = subprocess.run(
            [str(command), "demo", "--half", "text", "--json", "--set", f"run.seed={seed}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        wall_s = time.perf_counter() - started
    tables = json.loads(done.stdout)["test"]["tables"]
    return wall_s, {name: table["overall"]["success_rate"] for name, table in tables.items()}


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    walls, shares = zip(*(play(seed) for seed in range(42, 42 + REPEATS)), strict=True)
    best = [share["best"] for share in shares]
    others = [share[name] for share in shares for name in ("initial", "placebo")]
    figures = {
        "wall_s": round(statistics.median(walls), 1),
        "best": min(best),
        "initial_or_placebo": max(others),
        "targets": {"wall_s": MAX_WALL_S, "best": MIN_BEST, "initial_or_placebo": MAX_OTHERS},
        "spread": {"wall_s": [round(min(walls), 1), round(max(walls), 1)]},
        "repeats": REPEATS,
        "ok": max(walls) < MAX_WALL_S and min(best) >= MIN_BEST and max(others) < MAX_OTHERS,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

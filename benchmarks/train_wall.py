"""How long a whole training run takes, beside SkillOpt 0.2.0 doing the same job.

Two epochs over 80 train items in batches of 40, 40 val and 40 test items, one request per episode,
64 workers, about 600 requests; both sides ask the same endpoint, a process of its own on this
machine that answers by content after 200 ms. The original is installed from PyPI into a virtual
environment outside this tree, once ($XDG_CACHE_HOME or ~/.cache). Its wheel comes without prompt
files, so both sides send ours. Ours runs with ``run.parity``.

    .venv/bin/python benchmarks/train_wall.py [--repeats 5] [--lognormal 3]

The ideal is a number of waves of 200 ms, counted by hand. Without needless barriers, and with as
many workers as anybody could use, the job has 27:

    per step, 4 of them        rollouts, analysts, both merges, final merge, ranking, gate     24
    epoch 1's first rollouts   the baseline on val is played beside them                        0
    end of epoch 2             rollouts under both skills together, then slow update + meta     2
    at the end                 test: the initial, best and final skill together                 1

Guidance enters the last skill unmeasured, so the last skill also meets the best one on val, which
needs nothing of the test and the test nothing of it. That makes 160 requests at the end, and 64
workers need three waves for them, not one: 29. The baseline costs no wave even so: the 16 requests
that find no worker run beside the six analysts. What a run really did is counted from the
endpoint's log: a request is in wave n + 1 if it arrived after the answer to a request of wave n.

With lognormal latencies (median 200 ms, sigma 0.8) a wave takes as long as its slowest request.
Ours is measured by default and with ``models.*.hedge``, which sends the last requests of a wave a
second time; the further requests are counted.

The same is computed where only waiting takes time (``wall/virtual.py``): it is the same on any
machine, and says what a run saves before its own work slows it down.

The targets are ratios to the original, turn by turn; the number of waves that the endpoint saw; and
what the run decides, which is the same with hedging. The ratio to 29 waves is printed; a slow
machine misses it for want of CPU time.

CPU time is that of the side's process alone; seconds are those of the training, without imports,
and of the whole process where it says so.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measuring import Check, Kind, at_most, report
from measuring import ratios_of as by_turns
from measuring.endpoint import served
from wall import job

HERE = Path(__file__).resolve().parent / "wall"
PROMPTS = HERE.parents[1] / "src" / "skillwright" / "textopt" / "prompts"
PACKAGE = "skillopt==0.2.0"
LATENCY_MS = 200.0
SIGMA = 0.8
UNBOUNDED_WAVES = 27
IDEAL_WAVES = 29
WALL, CPU, LOGNORMAL = 1.0, 0.55, 1.0
"""Of the original's."""
HEDGED = 0.65
"""Seconds with hedging, of the original's."""
FURTHER = 1.2
"""Requests with hedging, of those without."""
WAITED_HEDGED = 0.75
"""Waiting with hedging, of that without, at lognormal latencies."""
SEEDS = 6


@dataclass(frozen=True)
class Figures:
    """One run of one side."""

    train_s: float  # seconds of the training
    train_cpu_s: float  # cPU seconds of the training
    process_s: float  # seconds of the whole process
    process_cpu_s: float  # cPU seconds of the whole process
    requests: dict[str, int]  # how many requests of each stage were answered
    # how many the endpoint saw, with those that were given up because another one answered first
    asked: int
    # the longest chain of requests of which each came after the answer to the one before
    waves: int
    busy: float  # share of the worker slots that was waiting for an answer
    actions: list[str]  # what became of each step


def install() -> Path:
    """Install the original where it cannot meet our packages, and return its interpreter."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cache / "skillwright-benchmarks" / PACKAGE.replace("==", "-")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = folder / "ready"
    if not ready.is_file():
        print(f"installing {PACKAGE} into {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PACKAGE], check=True)
        ready.touch()
    (site,) = (*folder.glob("lib/python*/site-packages"), *folder.glob("Lib/site-packages"))
    for prompt in PROMPTS.glob("*.md"):
        shutil.copy(prompt, site / "skillopt" / "prompts" / prompt.name)
    return python


def run(python: Path, script: str, sigma: float, seed: int, *options: str) -> Figures:
    """Let one side do the job."""
    server = served(HERE / "endpoint.py", LATENCY_MS, sigma, seed)
    with tempfile.TemporaryDirectory() as name, server as url:
        folder = Path(name)
        job.write_items(folder / "tasks")
        said = folder / "said.txt"
        words = [
            str(python),
            HERE / script,
            f"{url}/v1",
            folder / "tasks",
            folder / "out",
            *options,
        ]
        started = time.perf_counter()
        with said.open("w") as file:
            child = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
            _, status, used = os.wait4(child.pid, 0)
        process_s = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        text = said.read_text(encoding="utf-8")
        if child.returncode:
            raise SystemExit(f"{script} failed:\n{text[-4000:]}")
        with urllib.request.urlopen(f"{url}/log") as answer:
            seen = json.load(answer)
    log = seen["answered"]
    printed = json.loads(text.splitlines()[-1])
    waiting_s = sum(answered - arrived for _, arrived, answered in log)
    return Figures(
        train_s=printed["train_s"],
        train_cpu_s=printed["train_cpu_s"],
        process_s=process_s,
        process_cpu_s=used.ru_utime + used.ru_stime,
        requests=dict(Counter(stage for stage, _, _ in log).most_common()),
        asked=seen["asked"],
        waves=count_waves(log),
        busy=waiting_s / (printed["train_s"] * job.WORKERS),
        actions=printed["actions"],
    )


def count_waves(log: list[tuple[str, float, float]]) -> int:
    """Return the length of the longest chain of requests that followed each other."""
    moments = [(arrived, 1, number) for number, (_, arrived, _) in enumerate(log)]
    moments += [(answered, 0, number) for number, (_, _, answered) in enumerate(log)]
    depth: dict[int, int] = {}
    deepest = 0
    for _, is_arrival, number in sorted(moments):
        if is_arrival:
            depth[number] = deepest + 1
        else:
            deepest = max(deepest, depth[number])
    return deepest


def compare(python: Path, sigma: float, repeats: int) -> dict[str, list[Figures]]:
    """Let the sides take turns, print a line for each run, and return the figures by side."""
    sides = {"ours": (Path(sys.executable), "ours.py"), "theirs": (python, "theirs.py")}
    if sigma:
        sides["hedged"] = (Path(sys.executable), "ours.py", "hedge")
    found: dict[str, list[Figures]] = {name: [] for name in sides}
    for seed in range(1, repeats + 1):
        for name, (interpreter, script, *options) in sides.items():
            figures = run(interpreter, script, sigma, seed, *options)
            found[name].append(figures)
            shown = {
                key: round(value, 2) if isinstance(value, float) else value
                for key, value in asdict(figures).items()
            }
            load = round(os.getloadavg()[0], 1)
            print(f"{name:6} sigma {sigma} seed {seed} load {load}: {shown}", flush=True)
    return found


def of_theirs(ours: list[Figures], theirs: list[Figures], field: str) -> list[float]:
    """Return our figure by theirs of the same turn."""
    return by_turns(
        [getattr(figures, field) for figures in ours],
        [getattr(figures, field) for figures in theirs],
    )


def spread(side: list[Figures], field: str) -> list[float]:
    """Return the median, the least and the most of a figure."""
    values = [getattr(figures, field) for figures in side]
    return [round(value, 2) for value in (median(values), min(values), max(values))]


def checks_of(fixed: dict[str, list[Figures]], slow: dict[str, list[Figures]]) -> list[Check]:
    """Hold our runs against the original's."""
    ours, theirs = fixed["ours"], fixed["theirs"]
    waves = [float(figures.waves) for figures in ours]
    hedged, plain = slow["hedged"], slow["ours"]
    return [
        at_most("training", Kind.PEER, of_theirs(ours, theirs, "train_s"), WALL),
        at_most("CPU time of the training", Kind.PEER, of_theirs(ours, theirs, "train_cpu_s"), CPU),
        at_most("requests that waited for one another", Kind.COUNT, waves, IDEAL_WAVES),
        at_most(
            "training, lognormal latencies",
            Kind.PEER,
            of_theirs(plain, slow["theirs"], "train_s"),
            LOGNORMAL,
        ),
        at_most(
            "training, lognormal latencies, hedged",
            Kind.PEER,
            of_theirs(hedged, slow["theirs"], "train_s"),
            HEDGED,
        ),
        at_most("requests, hedged", Kind.COUNT, of_theirs(hedged, plain, "asked"), FURTHER),
    ]


def waited(sigma: float, seed: int, *options: str) -> dict[str, Any]:
    """Do the job on our side where only waiting takes time."""
    words = [sys.executable, HERE / "virtual.py", str(sigma), str(seed), *options]
    done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=HERE)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def waiting() -> tuple[list[Check], dict[str, Any]]:
    """Compare waiting and decisions with and without hedging."""
    fixed = waited(0.0, 1)
    plain = [waited(SIGMA, seed) for seed in range(1, SEEDS + 1)]
    hedged = [waited(SIGMA, seed, "hedge") for seed in range(1, SEEDS + 1)]
    pairs = list(zip(plain, hedged, strict=True))
    other = [float(a[key] != b[key]) for a, b in pairs for key in ("actions", "skills")]
    of_plain = [b["waited_s"] / a["waited_s"] for a, b in pairs]
    further = [b["asked"] / a["asked"] for a, b in pairs]
    checks = [
        at_most("waiting, hedged", Kind.SHARE, of_plain, WAITED_HEDGED),
        at_most("requests there", Kind.COUNT, further, FURTHER),
        at_most("runs that decide otherwise", Kind.COUNT, [sum(other)], 0),
    ]
    shown = {
        "fixed": fixed["waited_s"],
        "lognormal": [
            round(sum(x["waited_s"] for x in side) / SEEDS, 2) for side in (plain, hedged)
        ],
        "asked": [round(sum(x["asked"] for x in side) / SEEDS) for side in (plain, hedged)],
    }
    return checks, {"waiting": shown}


def figures_of(fixed: dict[str, list[Figures]], slow: dict[str, list[Figures]]) -> dict[str, Any]:
    """Return what else was measured."""
    ours, wave_s = fixed["ours"], LATENCY_MS / 1000
    wall_s = median(figures.train_s for figures in ours)
    fields = ("train_s", "train_cpu_s", "process_s", "process_cpu_s", "waves", "busy")
    return {
        "wall_s": round(wall_s, 2),
        "wall_to_29_waves": round(wall_s / (IDEAL_WAVES * wave_s), 3),
        "wall_to_27_waves": round(wall_s / (UNBOUNDED_WAVES * wave_s), 3),
        "wall_to_own_waves": round(median(f.train_s / (f.waves * wave_s) for f in ours), 3),
        "fixed": {
            name: {field: spread(side, field) for field in fields} for name, side in fixed.items()
        },
        "lognormal": {
            name: {field: spread(side, field) for field in ("train_s", "asked")}
            for name, side in slow.items()
        },
        "requests": {name: side[0].requests for name, side in fixed.items()},
    }


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser(description="Time a training run beside SkillOpt's.")
    parser.add_argument("--repeats", type=int, default=5, help="pairs at 200 ms a request")
    parser.add_argument("--lognormal", type=int, default=3, help="pairs with lognormal latencies")
    given, python = parser.parse_args(), install()
    checks, shown = waiting()
    fixed, slow = compare(python, 0.0, given.repeats), compare(python, SIGMA, given.lognormal)
    return report([*checks_of(fixed, slow), *checks], **figures_of(fixed, slow), **shown)


if __name__ == "__main__":
    sys.exit(main())

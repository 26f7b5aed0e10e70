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
that find no worker run beside the six analysts. The target holds for 29; the ratio to 27 is
printed too. What a run really did is counted from the endpoint's log: a request is in wave n + 1 if
it arrived after the answer to a request of wave n.

With lognormal latencies (median 200 ms, sigma 0.8) a wave takes as long as its slowest request, and
the target there is half of the original's time. Ours is measured as it is by default and with
``hedge`` (a request that is slower than 80% of its kind is asked again beside itself), which costs
further requests; they are counted. The target counts as met by the variants that are named.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from wall import job

HERE = Path(__file__).resolve().parent / "wall"
PROMPTS = HERE.parents[1] / "src" / "skillwright" / "textopt" / "prompts"
PACKAGE = "skillopt==0.2.0"
LATENCY_MS = 200.0
SIGMA = 0.8
UNBOUNDED_WAVES = 27
IDEAL_WAVES = 29
TARGETS = {"wall_to_ideal": 1.15, "cpu_to_theirs": 1 / 3, "lognormal": 0.5}


@dataclass(frozen=True)
class Figures:
    """One run of one side.

    Attributes:
        train_s: Seconds of the training.
        train_cpu_s: CPU seconds of the training.
        process_s: Seconds of the whole process.
        process_cpu_s: CPU seconds of the whole process.
        requests: How many requests of each stage were answered.
        asked: How many the endpoint saw, with those that were given up because another one
            answered first.
        waves: The longest chain of requests of which each came after the answer to the one before.
        chain: Requests in a row that the run's own records say it could not do without; 0 for the
            original, which keeps no such records.
        busy: Share of the worker slots that was waiting for an answer.
        actions: What became of each step.
    """

    train_s: float
    train_cpu_s: float
    process_s: float
    process_cpu_s: float
    requests: dict[str, int]
    asked: int
    waves: int
    chain: int
    busy: float
    actions: list[str]


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


@contextmanager
def endpoint(sigma: float, seed: int) -> Iterator[str]:
    """Serve in a process of its own, and give the URL."""
    words = [sys.executable, HERE / "endpoint.py", LATENCY_MS, sigma, seed]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def run(python: Path, script: str, sigma: float, seed: int, *options: str) -> Figures:
    """Let one side do the job."""
    with tempfile.TemporaryDirectory() as name, endpoint(sigma, seed) as url:
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
    told = json.loads(text.splitlines()[-1])
    waiting_s = sum(answered - arrived for _, arrived, answered in log)
    return Figures(
        train_s=told["train_s"],
        train_cpu_s=told["train_cpu_s"],
        process_s=process_s,
        process_cpu_s=used.ru_utime + used.ru_stime,
        requests=dict(Counter(stage for stage, _, _ in log).most_common()),
        asked=seen["asked"],
        waves=count_waves(log),
        chain=told.get("chain", 0),
        busy=waiting_s / (told["train_s"] * job.WORKERS),
        actions=told["actions"],
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
        sides["hedge"] = (Path(sys.executable), "ours.py", "hedge")
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


def ratio(ours: list[Figures], theirs: list[Figures], field: str) -> float:
    """Return the median of our figure by theirs of the same turn."""
    pairs = zip(ours, theirs, strict=True)
    return median(getattr(mine, field) / getattr(their, field) for mine, their in pairs)


def spread(side: list[Figures], field: str) -> list[float]:
    """Return the median, the least and the most of a figure."""
    values = [getattr(figures, field) for figures in side]
    return [round(value, 2) for value in (median(values), min(values), max(values))]


def summary(python: Path, repeats: int, lognormal: int) -> dict[str, Any]:
    """Measure, and return the figures beside their targets."""
    fixed, slow = compare(python, 0.0, repeats), compare(python, SIGMA, lognormal)
    ours, theirs = fixed["ours"], fixed["theirs"]
    ideal_s = IDEAL_WAVES * LATENCY_MS / 1000
    wall_s = median(figures.train_s for figures in ours)
    figures = {
        "wall_to_ideal": wall_s / ideal_s,
        "cpu_to_theirs": ratio(ours, theirs, "train_cpu_s"),
    }
    variants = {
        name: {
            "to_theirs": round(ratio(side, slow["theirs"], "train_s"), 3),
            "train_s": spread(side, "train_s"),
            "asked": spread(side, "asked"),
            "meets_the_target": ratio(side, slow["theirs"], "train_s") <= TARGETS["lognormal"],
        }
        for name, side in slow.items()
        if name != "theirs"
    }
    fields = ("train_s", "train_cpu_s", "process_s", "process_cpu_s", "waves", "chain", "busy")
    met = [name for name, value in figures.items() if value <= TARGETS[name]]
    met += [f"lognormal, {name}" for name, row in variants.items() if row["meets_the_target"]]
    return {
        **{name: round(value, 3) for name, value in figures.items()},
        "wall_s": round(wall_s, 2),
        "ideal_s": ideal_s,
        "wall_to_27_waves": round(wall_s / (UNBOUNDED_WAVES * LATENCY_MS / 1000), 3),
        "wall_to_theirs": round(ratio(ours, theirs, "train_s"), 3),
        "wall_to_own_waves": round(
            median(f.train_s / (f.waves * LATENCY_MS / 1000) for f in ours), 3
        ),
        "targets": {name: round(value, 3) for name, value in TARGETS.items()},
        "spread": {
            name: {field: spread(side, field) for field in fields} for name, side in fixed.items()
        },
        "lognormal": {**variants, "theirs_s": spread(slow["theirs"], "train_s")},
        "requests": {name: side[0].requests for name, side in fixed.items()},
        "repeats": {"fixed": repeats, "lognormal": lognormal},
        "met": met,
        "ok": set(figures) <= set(met) and "lognormal, ours" in met,
    }


def main() -> None:
    """Measure, and print one JSON object as the last line."""
    parser = argparse.ArgumentParser(description="Time a training run beside SkillOpt's.")
    parser.add_argument("--repeats", type=int, default=5, help="pairs at 200 ms a request")
    parser.add_argument("--lognormal", type=int, default=3, help="pairs with lognormal latencies")
    given = parser.parse_args()
    print(json.dumps(summary(install(), given.repeats, given.lognormal)))


if __name__ == "__main__":
    main()

"""How fast the tau-bench store is: gold replay, construction, a tool step, and memory.

Gold replay plays the 115 test tasks with a scripted user, from construction to the reward:
constructor, `init`, every gold call as the agent would write it, and a last message with the
required texts. A tool step is one such call. Memory is that of 1,000 episodes which have made
their gold calls and are still open, above a process that has played one of each task.

    .venv/bin/python benchmarks/tau_bench.py [DATA]

The baseline is what an episode costs without a shared database: the three tables are read again
at the start and for the reward, and both end states are hashed whole. It is measured beside the
gold replay, for the speed-up; nothing of it is used by the environment.

DATA is a folder with tau-bench's data (default: ``$SKILLWRIGHT_REFERENCE_DATA/tau_retail``).
The figures are medians, the spread their quartiles. One thread; nothing waits.
"""

import gc
import json
import os
import sys
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from skillwright.envs.tau_bench import TauBenchEnv, comparability, open_store
from skillwright.envs.tau_bench.parsing import OPEN
from skillwright.envs.tau_bench.tau_core.canonical import canonical_text, text_hash
from skillwright.envs.tau_bench.tau_core.database import TABLES

REPEATS = 30
LIVE = 1_000
TARGETS = {
    "episodes_per_s": (">=", 1_000.0),
    "construction_us": ("<", 100.0),
    "tool_step_us": ("<", 20.0),
    "live_1000_mb": ("<", 100.0),
    "won_of_115": (">=", 115.0),
}
USER = {"user_strategy": "scripted", "user_replies": ["Hello, it is about my order."]}
MEGABYTE = 1_000_000


def data_folder() -> str:
    """Find the data."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    reference = Path(os.environ.get("SKILLWRIGHT_REFERENCE_DATA", beside)) / "tau_retail"
    return sys.argv[1] if len(sys.argv) > 1 else str(reference)


def build(index: int) -> TauBenchEnv:
    """Build the episode of a test task."""
    return TauBenchEnv(extras={"task_index": index, "task_split": "test", **USER})


def play(index: int, turns: list[str]) -> float:
    """Play an episode to its end and return what it was paid."""
    env = build(index)
    env.init([])
    reward = 0.0
    for turn in turns:
        reward += env.step(turn)["reward"]
    return reward


def step_times(index: int, turns: list[str]) -> list[float]:
    """Play the tool calls of an episode; return the seconds of each."""
    env, times = build(index), []
    env.init([])
    for turn in turns:
        start = perf_counter()
        env.step(turn)
        if turn.startswith(OPEN):
            times.append(perf_counter() - start)
    return times


def construction_times(tasks: int) -> list[float]:
    """Build the episode of every task; return the seconds of each."""
    times = []
    for index in range(tasks):
        start = perf_counter()
        build(index)
        times.append(perf_counter() - start)
    return times


def baseline_s(folder: str) -> float:
    """Return the seconds that reading everything twice and hashing it twice take."""
    start = perf_counter()
    for _ in range(2):
        tables = {
            name: json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
            for name in TABLES
        }
        text_hash(canonical_text(tables))
    return perf_counter() - start


def resident_bytes() -> int:
    """Return the memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def live_bytes(golds: list[list[str]]) -> int:
    """Hold 1,000 episodes open after their gold calls; return what they take."""
    before, held = resident_bytes(), []
    for index in islice(cycle(range(len(golds))), LIVE):
        env = build(index)
        outputs = [env.init([]), *map(env.step, golds[index][:-1])]
        held.append((env, outputs))
    return resident_bytes() - before


def main() -> None:
    """Measure, print a line per figure, and the summary as the last line."""
    folder = data_folder()
    os.environ["SKILLWRIGHT_TAU_DATA"] = folder
    start = perf_counter()
    build(0)
    first_construction_s = perf_counter() - start
    start = perf_counter()
    open_store(folder).load()
    load_s = perf_counter() - start
    tasks = len(open_store(folder).tasks("test"))
    golds = [TauBenchEnv.gold_actions({"task_index": index}) for index in range(tasks)]
    won = sum(play(index, turns) for index, turns in enumerate(golds))
    memory = live_bytes(golds)

    rates, steps, builds = [], [], []
    baselines = [baseline_s(folder) for _ in range(5)]
    for _ in range(REPEATS):
        start = perf_counter()
        for index, turns in enumerate(golds):
            play(index, turns)
        rates.append(tasks / (perf_counter() - start))
        steps += [t for index, turns in enumerate(golds) for t in step_times(index, turns)]
        builds += construction_times(tasks)

    spread = {
        "episodes_per_s": quantiles(rates, n=4),
        "construction_us": [1e6 * value for value in quantiles(builds, n=4)],
        "tool_step_us": [1e6 * value for value in quantiles(steps, n=4)],
        "live_1000_mb": [memory / MEGABYTE] * 3,
        "won_of_115": [won] * 3,
    }
    figures = {name: round(middle, 2) for name, (_, middle, _) in spread.items()}
    for name, value in figures.items():
        sign, target = TARGETS[name]
        print(f"{name:16} {value:10.2f}   target {sign} {target:g}")
    holds = [
        figures[name] >= target if sign == ">=" else figures[name] < target
        for name, (sign, target) in TARGETS.items()
    ]
    summary = {
        **figures,
        "targets": {name: f"{sign} {target:g}" for name, (sign, target) in TARGETS.items()},
        "spread": {
            name: [round(low, 2), round(high, 2)] for name, (low, _, high) in spread.items()
        },
        "once": {
            "first_construction_ms": round(1e3 * first_construction_s, 2),
            "load_ms": round(1e3 * load_s, 2),
        },
        "baseline_ms": round(1e3 * median(baselines), 1),
        "times_faster_than_baseline": round(figures["episodes_per_s"] * median(baselines)),
        "tasks": tasks,
        "data": comparability()["data"]["checksum"],
        "ok": all(holds),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()

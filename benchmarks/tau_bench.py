"""How fast a domain of tau-bench is: gold replay, construction, a tool step, and memory.

Gold replay plays the test tasks (115 of retail, 50 of the airline) with a scripted user, from
construction to the reward: constructor, `init`, every gold call as the agent would write it, and a
last message with the required texts. A tool step is one such call. Memory is that of 1,000 episodes
which have made their gold calls and are still open, above a process that has played one of each
task.

    .venv/bin/python benchmarks/tau_bench.py [DATA [DOMAIN]]

The baseline is what an episode costs without a shared database: the three tables are read again
at the start and for the reward, and both end states are hashed whole. It is measured in turns with
the gold replay, for the speed-up; nothing of it is used by the environment. The rest is given in
pieces of plain work that is timed beside it.

DATA is a folder with tau-bench's data (default: ``$SKILLWRIGHT_REFERENCE_DATA/tau_retail``), and
DOMAIN is ``retail`` (the default) or ``airline``.
The figures are medians, the spread their quartiles. One thread; nothing waits.
"""

import hashlib
import json
import os
import sys
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from measuring import Kind, at_least, at_most, compared, report
from measuring.machine import resident_bytes, tau_folder
from skillwright.worlds.tau_bench import DOMAINS, TauBenchEnv, TauTask, comparability, open_store
from skillwright.worlds.tau_bench.parsing import CLOSE, OPEN
from skillwright.worlds.tau_bench.tau_core.database import canonical_text
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER

DOMAIN = DOMAINS[sys.argv[2] if len(sys.argv) > 2 else "retail"]
REPEATS = 30
LIVE = 1_000
SPEED_UP = 450.0
"""Episodes in the time of one without a shared database."""
EPISODE, CONSTRUCTION = 0.9, 0.024
"""In pieces of plain work."""
TOOL_STEP = 0.075 if DOMAIN.name == "airline" else 0.05
"""The same; the airline's steps search flights and write longer records."""
MOST_MB = 100.0
USER = {"user_strategy": "scripted", "user_replies": ["Hello, it is about my order."]}
MEGABYTE = 1_000_000


def build(index: int) -> TauBenchEnv:
    """Build the episode of a test task."""
    config = None if DOMAIN.name == "retail" else {"domain": DOMAIN.name}
    return TauBenchEnv(config, {"task_index": index, "task_split": "test", **USER})


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
    """Return the CPU seconds that reading everything twice and hashing it twice take."""
    start = process_time()
    for _ in range(2):
        tables = {
            name: json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
            for name in DOMAIN.tables
        }
        hashlib.sha256(canonical_text(tables).encode()).hexdigest()
    return process_time() - start


def live_bytes(golds: list[list[str]]) -> int:
    """Hold 1,000 episodes open after their gold calls; return what they take."""
    before, held = resident_bytes(), []
    for index in islice(cycle(range(len(golds))), LIVE):
        env = build(index)
        outputs = [env.init([]), *map(env.step, golds[index][:-1])]
        held.append((env, outputs))
    return resident_bytes() - before


def gold_turns(task: TauTask) -> list[str]:
    """Return the gold calls as an agent writes them, and what has to be said."""
    calls = [{"name": one.name, "arguments": one.kwargs} for one in task.actions]
    turns = [f"{OPEN}{json.dumps(one)}{CLOSE}" for one in calls if one["name"] != TRANSFER]
    return [*turns, f"That is done. {' '.join(task.outputs)}".strip()]


def main() -> int:
    """Measure, and print the checks."""
    folder = sys.argv[1] if len(sys.argv) > 1 else str(tau_folder())
    os.environ[DOMAIN.data_variable] = folder
    start = perf_counter()
    build(0)
    first_construction_s = perf_counter() - start
    start = perf_counter()
    open_store(folder, DOMAIN.name).load()
    load_s = perf_counter() - start
    golds = [gold_turns(task) for task in open_store(folder, DOMAIN.name).tasks("test")]
    tasks = len(golds)
    solved = sum(play(index, turns) for index, turns in enumerate(golds))
    memory = live_bytes(golds)

    def replay() -> float:
        start = process_time()
        for index, turns in enumerate(golds):
            play(index, turns)
        return (process_time() - start) / tasks

    steps: list[float] = []
    builds: list[float] = []

    def tool_step() -> float:
        steps.append(
            median(t for index, turns in enumerate(golds) for t in step_times(index, turns))
        )
        return steps[-1]

    def construction() -> float:
        builds.append(median(construction_times(tasks)))
        return builds[-1]

    episodes, speed_ups = [], []
    for _ in range(REPEATS):
        episodes.append(replay())
        speed_ups.append(baseline_s(folder) / episodes[-1])
    checks = [
        at_least("speed-up of gold replay over no shared data", Kind.PEER, speed_ups, SPEED_UP),
        at_most("gold replay of an episode", Kind.PLAIN, compared(replay, REPEATS), EPISODE),
        at_most("construction", Kind.PLAIN, compared(construction, REPEATS), CONSTRUCTION),
        at_most("tool step", Kind.PLAIN, compared(tool_step, REPEATS), TOOL_STEP),
        at_most("1,000 live episodes", Kind.MEMORY, [memory / MEGABYTE], MOST_MB),
        at_least("gold episodes won, of all", Kind.SHARE, [solved / tasks], 1.0),
    ]
    return report(
        checks,
        episodes_per_s=round(1 / median(episodes)),
        construction_us=round(1e6 * median(builds), 2),
        tool_step_us=round(1e6 * median(steps), 2),
        first_construction_ms=round(1e3 * first_construction_s, 2),
        load_ms=round(1e3 * load_s, 2),
        tasks=tasks,
        data=comparability({"domain": DOMAIN.name})["data"]["checksum"],
    )


if __name__ == "__main__":
    sys.exit(main())

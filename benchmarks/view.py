"""How long a page takes on a large run: 50,000 episodes, a million turns, one episode of 127 MB.

The run has 300 iterations of a training of weights and a bank of 1,000 skills in 40 versions.

A page's time is the processor's in the app alone, asked in this process: no network, no browser. It
is set against fixed plain work in the same run; `--small` builds a tenth, to try the benchmark.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from starlette.testclient import TestClient

from measuring import Kind, at_most, long_plain_s, report
from skillwright.bank import Add, BankStore, only_equal
from skillwright.core import (
    Act,
    BankSkill,
    EpisodeResult,
    EpisodeSpec,
    SkillKind,
    Task,
    Trajectory,
    Turn,
    Usage,
)
from skillwright.dashboard import make_app
from skillwright.dashboard.app import COOKIE
from skillwright.jobs.weights import IterationRecord

EPISODES, TURNS = 50_000, 20
HUGE = 127 * 1_000_000
MOST_OF_PAGE = 300.0
"""A page by a piece of plain work (half a millisecond where this was set): 150 ms."""
MOST_OF_HUGE = 2_000.0
"""The first screen of the large episode by the same: 1 s."""
MOST_MB = 300.0
REPEATS = 7
PAGES = (
    "/",
    "/runs/large/",
    "/runs/large/tasks",
    "/runs/large/skill",
    "/runs/large/edits",
    "/runs/large/episodes",
    "/runs/large/episodes?outcome=unsolved&type=type-3",
    "/runs/large/episodes?q=needle",
    "/runs/large/episodes/77",
    "/runs/large/episodes/77?q=go",
    "/runs/large/side-by-side?a=77&b=78",
    "/runs/large/costs",
    "/runs/large/training",
    "/runs/large/bank",
    "/runs/large/bank?q=put+a+hot+apple+in+fridge",
    "/compare",
)
CONFIG = """\
env: {name: alfworld, data: {kind: generated, train: 12, val: 10, test: 10}}
models:
  target: {backend: scripted, model: household}
  optimizer: {backend: scripted, model: analyst}
"""


def episode(number: int, turns: int, size: int) -> EpisodeResult:
    """Return an episode whose observations have so many characters."""
    prompt = ({"role": "system", "content": "You act."}, {"role": "user", "content": "Go."})
    observation = f"You see {number}. " + "abcdefghij" * (size // 10)
    done = tuple(
        Turn(at, prompt, Act(f"go to {at}", usage=Usage(1, 500, 10)), f"{at} {observation}", 0.0)
        for at in range(turns)
    )
    task = Task(f"task-{number % 400}", "alfworld", task_type=f"type-{number % 6}", split="val")
    spec = EpisodeSpec(task, number, number // 400, "gate", number // 2000)
    return EpisodeResult(
        spec=spec,
        reward=float(number % 3 == 0),
        trajectory=Trajectory(opening="Go.", turns=done),
        skill_version=f"version-{number // 2500}",
        key=f"{number:064x}",
    )


def iteration(number: int) -> IterationRecord:
    """Return what an iteration of the training of weights writes down."""
    share = (number % 17) / 17
    types = {f"type-{kind}": (number % 9, 9) for kind in range(6)}
    return IterationRecord(
        iteration=number,
        bank_version=1,
        episodes=64,
        reward=share,
        success=share,
        task_types=types,
        groups=8,
        zero_variance=number % 8,
        lone=0,
        failures=0,
        truncated=0,
        malformed=0,
        turns=9.5,
        tokens=120.0,
        rows=600,
        steps=4,
        skipped=0,
        loss=0.1,
        kl=share / 10,
        entropy=1.0,
        clip_fraction=share / 20,
        drift=0.0,
        grad_norm=1.0,
        learning_rate=1e-5,
        skills=8.0,
    )


def grow_bank(path: Path) -> None:
    """Make a bank of 1,000 skills in 40 versions."""
    with BankStore.open(path) as bank:
        for version in range(40):
            added = [
                Add(
                    BankSkill(
                        id="new",
                        kind=SkillKind.TASK_SPECIFIC,
                        name=f"Rule {version}-{number}",
                        principle=f"Look at place {number} of {version} before {number * version}.",
                        applicability="when a goal names that thing",
                        category=f"type-{number % 6}",
                    )
                )
                for number in range(25)
            ]
            bank.commit(added, reason=f"round {version}", is_near=only_equal)


def build(folder: Path, episodes: int) -> int:
    """Make the run, and return the number of its large episode."""
    from skillwright.config import load_config
    from skillwright.jobs.text import start_run

    config = folder / "large.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    loaded = load_config(config)
    section = loaded.run.model_copy(update={"name": "large", "root": str(folder / "runs")})
    run = start_run(loaded.model_copy(update={"run": section}), "")
    store = run.store
    with store.transaction():
        for number in range(episodes):
            store.record_episode(episode(number, TURNS, 100))
        for number in range(1, 301):
            store.append_event("iteration", iteration(number).to_dict())
    huge = store.record_episode(episode(episodes, 1270, HUGE // 1270))
    grow_bank(run.folder.path / "bank" / "bank.sqlite")
    run.close()
    return huge


def pages_s(root: Path) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Ask for every page in turns; return the seconds of each, and those of the processor."""
    times: dict[str, list[float]] = {page: [] for page in PAGES}
    busy: dict[str, list[float]] = {page: [] for page in PAGES}
    with TestClient(make_app(root, token="t"), base_url="http://127.0.0.1") as client:
        client.cookies.set(COOKIE.format(port=""), "t")
        for _ in range(REPEATS):
            for page in PAGES:
                start, working = time.perf_counter(), time.process_time()
                answer = client.get(page)
                times[page].append(time.perf_counter() - start)
                busy[page].append(time.process_time() - working)
                assert answer.status_code == 200, (page, answer.text[:500])
    return times, busy


def huge_alone(root: Path, number: int) -> None:
    """Show the large episode in a process of its own; print seconds and megabytes."""
    with TestClient(make_app(root, token="t"), base_url="http://127.0.0.1") as client:
        client.cookies.set(COOKIE.format(port=""), "t")
        client.get("/runs/large/costs")  # whatever is imported late is imported now
        start = time.perf_counter()
        answer = client.get(f"/runs/large/episodes/{number}")
        took = time.perf_counter() - start
    assert answer.status_code == 200, answer.text[:500]
    print(took, peak_mb())


def peak_mb() -> float:
    """Return the most memory that this process has had.

    What `resource` says of a child begins with its parent's memory; this does not.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1024


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--huge", nargs=2)
    given = parser.parse_args()
    if given.huge:
        huge_alone(Path(given.huge[0]), int(given.huge[1]))
        return 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "runs"
        huge = build(Path(name), EPISODES // 10 if given.small else EPISODES)
        unit = long_plain_s()
        times, busy = pages_s(root)
        alone = []
        for _ in range(3):
            command = (sys.executable, __file__, "--huge", str(root), str(huge))
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            alone.append(tuple(map(float, said.split())))
        unit = (unit + long_plain_s()) / 2
    slowest = max(busy, key=lambda page: median(busy[page]))
    checks = [
        at_most(
            f"the slowest page, {slowest}",
            Kind.PLAIN,
            [took / unit for took in busy[slowest]],
            MOST_OF_PAGE,
        ),
        at_most(
            "first screen of a 127 MB episode",
            Kind.PLAIN,
            [took / unit for took, _ in alone],
            MOST_OF_HUGE,
        ),
        at_most("memory for it", Kind.MEMORY, [size for _, size in alone], MOST_MB),
    ]
    return report(
        checks,
        plain_s=round(unit, 6),
        pages_ms={page: round(median(one) * 1000, 1) for page, one in times.items()},
        pages_processor_ms={page: round(median(one) * 1000, 1) for page, one in busy.items()},
    )


if __name__ == "__main__":
    sys.exit(main())

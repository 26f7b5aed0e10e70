"""What episodes cost on Ray, and what two workers gain: a Ray of its own on this machine.

Driver: the CPU time of this process, all of its threads, per episode of ALFWorld. Workers: the CPU
time of their processes by that of the local engine on the same episodes, which also looks at keys
and order. Two workers by one: the wall time of the same episodes, which never wait; it needs two
free cores. Waiting: 2,000 episodes at once whose agent only waits, by the sum of its waits.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from measuring import Kind, at_least, at_most, plain_s, ratios_of, report
from skillwright.config.run import validated
from skillwright.core import Act, Agent, EpisodeResult, EpisodeSpec, PlainSkill, Task, TurnContext
from skillwright.envs import TextEnv
from skillwright.jobs.run import make_env, make_splits
from skillwright.models import HttpClient, ScriptedConfig, agent_of, make_model
from skillwright.plugins.ray.placement import RayEngine, RayPlacement
from skillwright.plugins.ray.pool import PooledEngine, WorkerPool
from skillwright.rollout import Limits, LocalEngine, MakeEnv
from skillwright.rollout.workers import Cluster

ROUNDS, CPU_ROUNDS = 3, 9
EPISODES = 120
WAITING = 2_000
TURNS, WAIT_S = 10, 2.0
WORKERS = 2

MOST_DRIVER = 3.66
"""Pieces of plain work per episode: 1.5 ms where a piece takes 0.41 ms."""
MOST_WORKER = 1.15
LEAST_SPEED_UP = 1.5
MOST_WAITING = 1.15

SKILL = PlainSkill("Look into closed receptacles, too.")


class Waits(TextEnv):
    """Ends after so many turns, whatever is said."""

    def init(self, prompt: Sequence) -> tuple[list, dict]:
        """Open."""
        return [*prompt, {"role": "user", "content": "Wait."}], {}

    def step(self, action: str) -> dict:
        """Count."""
        self.turns += 1
        if self.turns == TURNS:
            return self.finish("Done.", reward=1.0)
        return self.reply("Wait on.")


def waits(task: Task) -> TextEnv:
    """Build one."""
    return Waits(extras=dict(task.extras))


class WaitingAgent:
    """Answers after a while, as a model does."""

    identity = "benchmark:waiting"

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Wait, and say something."""
        await asyncio.sleep(WAIT_S)
        return [Act("waited") for _ in contexts]


def waiting_agent(client: HttpClient) -> Agent:
    """Make one."""
    return WaitingAgent()


def household(client: HttpClient) -> Agent:
    """Make the scripted agent of ALFWorld."""
    return agent_of(make_model(ScriptedConfig(model="household"), client))


@dataclass(frozen=True)
class Job:
    """Episodes, and who plays them."""

    specs: list[EpisodeSpec]
    make_env: MakeEnv
    make_agent: object
    at_once: int

    def local(self) -> LocalEngine:
        """Return the engine of this process."""
        return LocalEngine(
            self.make_agent(HttpClient()), self.make_env, limits=Limits(max_concurrent=self.at_once)
        )

    def on(self, pool: WorkerPool) -> PooledEngine:
        """Return the engine of a pool."""
        return PooledEngine(
            self.make_agent(HttpClient()),
            self.make_env,
            limits=Limits(max_concurrent=self.at_once),
            pool=pool,
            make_agent=self.make_agent,
        )


def alfworld() -> Job:
    """Return episodes that never wait."""
    scripted = {"backend": "scripted", "model": "household"}
    models = {"target": scripted, "optimizer": {"backend": "scripted", "model": "analyst"}}
    config = validated({"models": models, "env": {"data": {"train": EPISODES}}}, "benchmark")
    tasks = make_splits(config).train.tasks
    specs = [EpisodeSpec(task, number) for number, task in enumerate(tasks)]
    return Job(specs, make_env(config.env), household, 64)


def waiting() -> Job:
    """Return episodes that only wait."""
    specs = [EpisodeSpec(Task(f"t{n}", "waits", {"max_turns": TURNS}), n) for n in range(WAITING)]
    return Job(specs, waits, waiting_agent, WAITING)


def cpu_of(pids: Sequence[int]) -> float:
    """Return the CPU seconds that processes have used so far."""
    ticks = 0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Round:
    """One round of ALFWorld with so many workers, in seconds."""

    wall_s: float
    driver_s: float
    workers_s: float


async def local_round(engine: LocalEngine, job: Job) -> float:
    """Play it once in this process, and return the CPU seconds."""
    started = process_time()
    refuse_failures(await engine.run(job.specs, SKILL))
    return process_time() - started


async def one_round(engine: PooledEngine, job: Job) -> Round:
    """Play it once; what a first round loads is loaded already."""
    pids = [post.worker.pid for post in engine.pool._posts]
    wall, driver, workers = perf_counter(), process_time(), cpu_of(pids)
    results = await engine.run(job.specs, SKILL)
    refuse_failures(results)
    return Round(perf_counter() - wall, process_time() - driver, cpu_of(pids) - workers)


def refuse_failures(results: Sequence[EpisodeResult]) -> None:
    """Stop where something was not played."""
    failures = [one.failure for one in results if one.failure is not None]
    if failures:
        raise RuntimeError(f"{len(failures)} episodes failed: {failures[0].message}")


async def pool_of(workers: int, held: AsyncExitStack) -> WorkerPool:
    """Open a pool whose workers are up."""
    pool = await held.enter_async_context(WorkerPool(RayPlacement(Cluster(workers=workers))))
    for _ in range(1_200):
        if len(pool._posts) == workers:
            return pool
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{workers} workers did not come up")


async def cpu_bound(job: Job) -> dict[str, list[float]]:
    """Measure ALFWorld here, on one worker and on two, in turns."""
    found: dict[str, list[float]] = {
        name: [] for name in ("driver", "worker", "speed-up", "driver ms", "local ms", "plain ms")
    }
    async with AsyncExitStack() as held:
        engines = [job.on(await pool_of(workers, held)) for workers in (1, WORKERS)]
        for engine in engines:
            await engine.run(job.specs, SKILL)  # loads what is loaded once
        local = job.local()
        await local.run(job.specs, SKILL)
        for _ in range(CPU_ROUNDS):
            plain, before = plain_s(), await local_round(local, job)
            one = await one_round(engines[0], job)
            two = await one_round(engines[1], job)
            local_s = (before + await local_round(local, job)) / 2
            plain = (plain + plain_s()) / 2
            found["driver"].append(two.driver_s / EPISODES / plain)
            found["worker"].append(two.workers_s / local_s)
            found["speed-up"].append(one.wall_s / two.wall_s)
            found["driver ms"].append(two.driver_s / EPISODES * 1e3)
            found["local ms"].append(local_s / EPISODES * 1e3)
            found["plain ms"].append(plain * 1e3)
            print({name: round(values[-1], 3) for name, values in found.items()}, flush=True)
    return found


async def waited(job: Job) -> tuple[list[float], list[float]]:
    """Measure the seconds that waiting episodes take on workers, and here, in turns."""
    async with AsyncExitStack() as held:
        engines = [job.on(await pool_of(WORKERS, held)), job.local()]
        walls: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for engine, taken in zip(engines, walls, strict=True):
                started = perf_counter()
                refuse_failures(await engine.run(job.specs, SKILL))
                taken.append(perf_counter() - started)
            print(f"{WAITING:,} waiting episodes, in s: {[round(w[-1], 1) for w in walls]}")
    return walls[0], walls[1]


async def measured() -> tuple[dict[str, list[float]], tuple[list[float], list[float]]]:
    """Start Ray, and measure both."""
    async with RayEngine().connection(Cluster(workers=WORKERS + 1)):
        return await cpu_bound(alfworld()), await waited(waiting())


def main() -> int:
    """Measure, and print the checks."""
    found, (walls, here) = asyncio.run(measured())
    checks = [
        at_most("driver CPU per episode", Kind.PLAIN, found["driver"], MOST_DRIVER),
        at_most("worker CPU by the local engine's", Kind.PEER, found["worker"], MOST_WORKER),
        at_least("one worker's time by two workers'", Kind.PEER, found["speed-up"], LEAST_SPEED_UP),
        at_most(
            f"{WAITING:,} episodes that wait",
            Kind.IDEAL,
            ratios_of(walls, [TURNS * WAIT_S] * ROUNDS),
            MOST_WAITING,
        ),
    ]
    figures = {name: round(median(found[name]), 3) for name in found if name.endswith("ms")}
    figures["waiting here by the ideal"] = round(median(here) / (TURNS * WAIT_S), 3)
    return report(checks, **{name.replace(" ", "_"): value for name, value in figures.items()})


if __name__ == "__main__":
    sys.exit(main())

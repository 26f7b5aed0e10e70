"""Ray with several nodes on this machine: the same runs as without, whatever dies meanwhile."""

import asyncio
import os
import random
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
from pydantic import SecretStr

from doors import look, story
from mock_openai import MockOpenAI
from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs
from skillwright.config import dump_config
from skillwright.config.run import validated
from skillwright.core import FailureCause
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import open_run, run_training, start_run
from skillwright.models import HttpClient, OpenAIChatConfig, agent_of, make_model
from skillwright.plugins.ray.leases import Demand
from skillwright.plugins.ray.placement import RayPlacement, connect, why_lost
from skillwright.plugins.ray.pool import PooledEngine, WorkerPool
from skillwright.rollout import Limits, LocalEngine, MemoryRecorder
from skillwright.rollout.workers import Cluster

LIMITS = Limits(max_concurrent=24, retries=0)
TRIES = 3  # on a busy machine Ray's own processes may miss their 30 seconds


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each, one with a label; a test adds a third, and loses it."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster as RayCluster

    for left in reversed(range(TRIES)):
        made = RayCluster()
        try:
            for labels in ({}, {"pool": "spot"}):
                made.add_node(
                    num_cpus=1,
                    labels=labels,
                    object_store_memory=80 * 2**20,
                    include_dashboard=False,
                )
            assert connect(Cluster(address=made.address))
        except Exception:
            made.shutdown()
            if not left:
                raise
        else:
            break
    yield made
    ray.shutdown()
    made.shutdown()


def bisector(client):
    return Bisector()


def pooled(pool, worlds=None, **settings):
    worlds = worlds or Worlds()
    return PooledEngine(
        Bisector(), worlds, limits=LIMITS, pool=pool, make_agent=bisector, **settings
    )


def without_time(results):
    return [replace(result, wall_s=0.0) for result in results]


def household(folder, name, address, engine):
    return validated(
        {
            "run": {"name": name, "root": str(folder / name), "seed": 3},
            "env": {"data": {"train": 12, "val": 12, "test": 12}, "max_turns": 30},
            "models": {
                "target": {"backend": "scripted", "model": "household", "noise": 0.1},
                "optimizer": {"backend": "scripted", "model": "analyst"},
            },
            "train": {"epochs": 1, "batch_size": 6},
            "evaluation": {"gate": {"kind": "strict"}},
            "rollout": {"engine": engine, "ray": {"address": address}},
        },
        "test",
    )


async def trained(config):
    with start_run(config, "") as run:
        await run_training(run, NullCallback())
        return run.folder.path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The run that this process plays alone."""
    return asyncio.run(trained(household(tmp_path_factory.mktemp("local"), "run", None, "local")))


async def test_a_training_decides_and_learns_what_it_does_without_ray(cluster, reference, tmp_path):
    path = await trained(household(tmp_path, "run", cluster.address, "ray"))
    assert story(path) == story(reference)
    with look(path) as store:
        assert store.verdicts(), "something was decided"


KILLED = """
import asyncio, os, signal, sys
from skillwright.config import load_config
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.jobs.run.progress import EpisodeFinished

class Dies(NullCallback):
    left = int(sys.argv[2])
    def on_event(self, event):
        if isinstance(event, EpisodeFinished):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)

with start_run(load_config(sys.argv[1]), "") as run:
    asyncio.run(run_training(run, Dies()))
"""


@pytest.mark.heavy
async def test_a_run_whose_process_was_killed_continues_as_if_it_had_not_been(
    cluster, reference, tmp_path
):
    config = household(tmp_path, "run", cluster.address, "ray")
    file = tmp_path / "run.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    command = [sys.executable, "-c", KILLED, str(file), "30"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    path = tmp_path / "run" / "run"
    with look(path) as store:
        assert 10 < len(store.episodes()) <= 30
    with open_run(path) as run:
        await run_training(run, NullCallback())
    assert story(path) == story(reference)


@pytest.mark.heavy
async def test_killed_workers_and_a_lost_node_lose_and_double_none_of_500_episodes(cluster):
    import ray

    specs, recorder = guess_specs(500, upper=256), MemoryRecorder()
    local = await LocalEngine(Bisector(), Worlds()).run(specs, NO_SKILL)
    dice, deaths = random.Random(7), []
    doomed = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)

    class Kills:
        def on_turn(self, event):
            pass

        def on_episode(self, event):
            done = len(recorder.results)
            if done % 100 == 0 and len(deaths) < 3:
                deaths.append(done)
                ray.kill(dice.choice(pool._posts).worker.actor)
            if done == 250:
                cluster.remove_node(doomed, allow_graceful=False)

    async with WorkerPool(RayPlacement(Cluster(address=cluster.address, workers=3))) as pool:
        results = await pooled(pool, recorder=recorder, observer=Kills()).run(specs, NO_SKILL)
        assert pool.lost >= 3
    assert without_time(results) == without_time(local)
    assert sorted(one.task_id for one in recorder.results) == sorted(s.task.id for s in specs)


class Deadly(Guess):
    """Ends its process, as the kernel ends one that is out of memory."""

    def step(self, action):
        os._exit(137)


async def test_an_episode_that_ends_its_process_fails_and_its_neighbors_do_not(cluster):
    """Its workers are on the node with the label, which has one CPU and so one of them."""
    import ray

    placement = RayPlacement(Cluster(address=cluster.address, labels={"pool": "spot"}))
    assert placement.workers == 1
    async with WorkerPool(placement) as pool:
        results = await pooled(pool, Worlds(t2=Deadly)).run(guess_specs(6), NO_SKILL)
        [actor] = [post.worker.actor for post in pool._posts]
        found = ray._private.state.actors(actor._actor_id.hex())
    labels = {node["NodeID"]: node["Labels"] for node in ray.nodes()}
    assert labels[found["Address"]["NodeID"]]["pool"] == "spot"
    assert [one.task_id for one in results if one.failure] == ["t2"]
    assert results[2].failure.cause is FailureCause.WORKER


@dataclass(frozen=True)
class Talks:
    """Makes the agent of an endpoint, here or on a worker."""

    config: OpenAIChatConfig

    def __call__(self, client):
        return agent_of(make_model(self.config, client))


class Announced(RayPlacement):
    """Says when a worker is up: one that comes late finds nothing left to play."""

    def __init__(self, settings):
        super().__init__(settings)
        self.up = asyncio.Semaphore(0)

    async def start(self):
        worker = await super().start()
        self.up.release()
        return worker


@pytest.mark.heavy
async def test_workers_keep_within_the_bounds_of_an_endpoint_together(cluster):
    async def answer(body):
        await asyncio.sleep(0.02)  # so that calls overlap where they may
        return "4"

    async with MockOpenAI(answer) as server:
        key = SecretStr(server.api_key)
        config = OpenAIChatConfig(
            model="m", base_url=server.base_url, api_key=key, max_concurrent=3, start_concurrent=3
        )
        talks = Talks(config)
        placement = Announced(Cluster(address=cluster.address, workers=2))
        async with WorkerPool(placement) as pool, HttpClient() as client:
            for _ in range(placement.workers):
                await placement.up.acquire()
            engine = PooledEngine(
                talks(client),
                Worlds(),
                limits=Limits(max_concurrent=24, retries=0, max_turns=3),
                pool=pool,
                make_agent=talks,
            )
            results = await engine.run(guess_specs(40, upper=4), NO_SKILL)
            assert len({post.worker.pid for post in pool._posts}) == 2
    assert all(one.failure is None for one in results)
    assert 2 <= server.most_in_flight <= 3


@pytest.mark.heavy
async def test_a_pool_whose_limits_ended_with_an_earlier_pool_gets_new_ones(cluster):
    import ray

    placement = RayPlacement(Cluster(address=cluster.address, workers=1))
    ray.kill(placement._ledger, no_restart=True)
    async with WorkerPool(placement) as pool:
        results = await pooled(pool, Worlds()).run(guess_specs(2), NO_SKILL)
        grants = await placement._ledger.renew.remote("one", {"host": Demand(3, 1, 3)})
    assert all(one.failure is None for one in results)
    assert grants["host"].places == 3


def test_what_ray_says_of_a_lost_worker_becomes_one_line_with_the_next_move():
    exceptions = pytest.importorskip("ray").exceptions
    assert "rollout.max_concurrent" in why_lost(exceptions.OutOfMemoryError("killed: memory"))
    assert "object store is full" in why_lost(exceptions.ObjectStoreFullError("no room"))
    assert "\n" not in why_lost(exceptions.ActorDiedError())

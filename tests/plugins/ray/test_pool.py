"""Episodes over workers: the same results as here, each once, whichever worker dies."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rollout_worlds import NO_SKILL, Bisector, Broken, Guess, Hanging, Worlds, guess_specs
from skillwright.core import (
    ConfigError,
    FailureCause,
    ModelRefused,
    PlainSkill,
    Usage,
)
from skillwright.models import EndpointDown
from skillwright.plugins.ray.pool import MOST_LOSSES, PooledEngine, WorkerLost, WorkerPool
from skillwright.plugins.ray.worker import (
    EpisodeWorker,
    Setting,
    Shared,
    SharedFile,
    lacks,
    put_down,
    read_report,
    write_orders,
)
from skillwright.rollout import EngineDown, Limits, LocalEngine, MemoryRecorder
from workers_here import WorkersHere

SHORT = Limits(max_concurrent=8, retries=0)


def bisector(client):
    return Bisector()


def pooled(pool, make_agent=bisector, worlds=None, limits=SHORT, **settings):
    return PooledEngine(
        make_agent(None),
        worlds or Worlds(),
        limits=limits,
        pool=pool,
        make_agent=make_agent,
        **settings,
    )


def without_time(results):
    return [replace(result, wall_s=0.0) for result in results]


async def test_workers_give_the_results_of_this_process_in_the_order_of_the_specs():
    specs, skill = guess_specs(30), PlainSkill("Halve what is left.")
    local = await LocalEngine(Bisector(), Worlds(t3=Broken), limits=SHORT).run(specs, skill)
    async with WorkerPool(WorkersHere(3)) as pool:
        results = await pooled(pool, worlds=Worlds(t3=Broken)).run(specs, skill)
    assert without_time(results) == without_time(local)
    assert [result.spec for result in results] == specs
    assert results[3].failure.cause is FailureCause.ENVIRONMENT
    assert [one.lost_usage for one in results] == [one.lost_usage for one in local]


async def test_episodes_come_in_batches_evenly_and_never_more_at_once_than_allowed():
    here = WorkersHere(2)
    async with WorkerPool(here) as pool:
        await pooled(pool, limits=Limits(max_concurrent=8)).run(guess_specs(80), NO_SKILL)
    for worker in here.started:
        assert worker.batches[0] == 4  # eight at once, over two
        assert max(worker.batches) <= 4
        assert len(worker.batches) < 40, "an episode a call is no batch"
        assert 20 < sum(worker.batches) < 60


async def test_what_a_dead_worker_had_is_played_again_and_every_episode_is_recorded_once():
    specs, recorder, here = guess_specs(60), MemoryRecorder(), WorkersHere(3)
    local = await LocalEngine(Bisector(), Worlds()).run(specs, NO_SKILL)
    deaths = iter(range(5))

    class Kills(Watches):
        def on_episode(self, event):
            super().on_episode(event)
            if len(recorder.results) % 7 == 0 and next(deaths, None) is not None:
                here.started[-1].die("the node is gone")

    async with WorkerPool(here, pause_s=0) as pool:
        watching = Kills()
        engine = pooled(pool, recorder=recorder, observer=watching)
        results = await engine.run(specs, NO_SKILL)
        assert pool.lost == 5
    assert without_time(results) == without_time(local)
    assert sorted(one.task_id for one in recorder.results) == sorted(s.task.id for s in specs)
    assert len(watching.episodes) == 60


class Watches:
    def __init__(self):
        self.turns = []
        self.episodes = []

    def on_turn(self, event):
        self.turns.append(event)

    def on_episode(self, event):
        self.episodes.append(event.result.task_id)


class Deadly(Guess):
    """Takes its worker with it."""

    here = None

    def step(self, action):
        for worker in self.here.started:
            if worker.batches:
                worker.die("out of memory")
        return super().step(action)


async def test_an_episode_that_kills_its_workers_fails_alone_and_its_neighbors_have_results():
    Deadly.here = here = WorkersHere(1)
    specs = guess_specs(6)
    async with WorkerPool(here, pause_s=0) as pool:
        engine = pooled(
            pool, worlds=Worlds(t2=Deadly), limits=SHORT.model_copy(update={"give_up_after": None})
        )
        results = await engine.run(specs, NO_SKILL)
    assert [one.task_id for one in results if one.failure] == ["t2"]
    failure = results[2].failure
    assert failure.cause is FailureCause.WORKER
    assert failure.message.endswith("out of memory")
    assert results[2].attempts == MOST_LOSSES
    assert here.started[2].batches[0] == 1, "the last time it is played alone"


class Refused(Bisector):
    async def act_batch(self, contexts):
        raise ModelRefused("no such key")


def refused(client):
    return Refused()


class Down(Bisector):
    async def act_batch(self, contexts):
        raise EndpointDown("nobody is there", 3.0, for_good=True)


def down(client):
    return Down()


@pytest.mark.parametrize(("make_agent", "error"), [(refused, ModelRefused), (down, EndpointDown)])
async def test_what_stops_a_run_here_stops_it_there_with_the_same_error(make_agent, error):
    async with WorkerPool(WorkersHere(2)) as pool:
        with pytest.raises(error) as raised:
            await pooled(pool, make_agent).run(guess_specs(9), NO_SKILL)
    assert "act_batch" in raised.value.__notes__[0], "where it was raised is in the notes"
    if error is EndpointDown:
        assert (raised.value.for_good, raised.value.retry_after_s) == (True, 3.0)


class Costly(Bisector):
    async def act_batch(self, contexts):
        acts = await super().act_batch(contexts)
        return [replace(act, usage=Usage(calls=1, input_tokens=5)) for act in acts]


def costly(client):
    return Costly()


async def test_a_run_that_is_stopped_stops_its_episodes_and_counts_what_they_used():
    recorder = MemoryRecorder()
    async with WorkerPool(WorkersHere(2)) as pool:
        engine = pooled(pool, costly, Worlds(Hanging), recorder=recorder)
        run = asyncio.create_task(engine.run(guess_specs(6), NO_SKILL))
        for _ in range(100):  # until they hang
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert not any(post.jobs for post in pool._posts)
    assert len(recorder.abandoned) == 6
    assert recorder.results == []


async def test_what_was_stopped_is_not_played_again_where_its_worker_dies_meanwhile():
    here, recorder = WorkersHere(1), MemoryRecorder()
    async with WorkerPool(here, pause_s=0) as pool:
        engine = pooled(pool, costly, Worlds(Hanging), recorder=recorder)
        run = asyncio.create_task(engine.run(guess_specs(2), NO_SKILL))
        for _ in range(100):  # until they hang
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.sleep(0)
        here.started[0].die()
        with pytest.raises(asyncio.CancelledError):
            await run
        for _ in range(100):
            await asyncio.sleep(0)
        assert [worker.batches for worker in here.started] == [[2], []]


async def test_an_observer_is_given_every_turn_with_what_it_used():
    watching = Watches()
    async with WorkerPool(WorkersHere(2)) as pool:
        results = await pooled(pool, costly, observer=watching).run(guess_specs(9), NO_SKILL)
    for result in results:
        turns = [one.turn for one in watching.turns if one.spec is result.spec]
        assert [one.index for one in turns] == list(range(len(result.trajectory.turns)))
        assert sum((one.act.usage for one in turns), Usage()) == result.trajectory.usage


async def test_what_an_observer_raises_stops_the_run():
    class Stops(Watches):
        def on_turn(self, event):
            raise LookupError("enough")

    async with WorkerPool(WorkersHere(2)) as pool:
        with pytest.raises(LookupError, match="enough"):
            await pooled(pool, observer=Stops()).run(guess_specs(9), NO_SKILL)


async def test_without_workers_a_run_stops_and_says_why():
    here = WorkersHere(2, refuses=[WorkerLost("no node has a free CPU")] * 6)
    async with WorkerPool(here, pause_s=0) as pool:
        with pytest.raises(EngineDown, match="none can be started: no node has a free CPU"):
            await pooled(pool).run(guess_specs(3), NO_SKILL)
        with pytest.raises(EngineDown):
            await pooled(pool).run(guess_specs(3), NO_SKILL)


async def test_a_worker_that_starts_late_is_waited_for():
    here = WorkersHere(2, refuses=[WorkerLost("not yet")] * 5)
    async with WorkerPool(here, pause_s=0) as pool:
        assert len(await pooled(pool).run(guess_specs(3), NO_SKILL)) == 3


async def test_workers_of_another_version_stop_the_run_at_once():
    here = WorkersHere(2, refuses=[ConfigError("the worker has Skillwright 0.1")])
    async with WorkerPool(here) as pool:
        with pytest.raises(ConfigError, match=r"Skillwright 0\.1"):
            await pooled(pool).run(guess_specs(3), NO_SKILL)


async def test_parts_that_cannot_be_sent_are_refused_before_anything_is_played():
    async with WorkerPool(WorkersHere(1)) as pool:
        with pytest.raises(ConfigError, match="cannot be sent to workers"):
            pooled(pool, lambda client: Bisector())


async def test_a_policy_does_not_leave_its_process():
    async with WorkerPool(WorkersHere(1)) as pool:
        with pytest.raises(ConfigError, match="use engine 'local'"):
            pooled(pool, mode="lockstep")


async def test_a_worker_has_keys_where_it_had_none(monkeypatch):
    monkeypatch.setenv("A_KEY", "its own")
    monkeypatch.delenv("B_KEY", raising=False)
    async with WorkerPool(WorkersHere(1)) as pool:
        keys = {"A_KEY": "sent", "B_KEY": "sent"}
        engine = pooled(pool, keyed, environ=keys)
        assert "sent" not in repr(engine)
        await engine.run(guess_specs(1), NO_SKILL)
    assert SEEN[-1] == ("its own", "sent")


SEEN = [()]


def keyed(client):
    SEEN.append((os.environ.get("A_KEY"), os.environ.get("B_KEY")))
    return Bisector()


async def test_a_report_has_a_bound_and_the_rest_comes_with_the_next_one():
    setting = Setting(bisector, Worlds(), SHORT, LocalEngine(Bisector(), Worlds()).prompt)

    async def fetch(handle):
        return setting

    specs = guess_specs(5)
    local = LocalEngine(Bisector(), Worlds(), limits=SHORT)
    orders = [(n, local._assign(spec, NO_SKILL.context(spec.task))) for n, spec in enumerate(specs)]
    worker = EpisodeWorker(fetch, linger_s=0, max_report_bytes=1)
    await worker.hand(Shared(1, None, 8), write_orders(orders))
    for _ in range(200):  # until all are over
        await asyncio.sleep(0)
    reports = [read_report(await worker.collect()) for _ in specs]
    assert [len(report.ended) for report in reports] == [1] * 5
    await worker.close()


class Reads(Guess):
    """Reads a file when it opens."""

    def init(self, prompt):
        FOUND.append(Path(self.extras["file"]).read_text(encoding="utf-8"))
        return super().init(prompt)


FOUND = []


async def test_files_are_sent_once_to_machines_that_have_them_not(tmp_path):
    file = tmp_path / "data" / "catalog.txt"
    file.parent.mkdir()
    file.write_text("a chair", encoding="utf-8")
    here = WorkersHere(2)
    here.has_other_machines = True
    async with WorkerPool(here) as pool:
        engines = [pooled(pool, worlds=Worlds(Reads), files=[file]) for _ in range(2)]
        assert len(here._shared) == 3, "two settings and one file"
        shutil.rmtree(file.parent)  # as it is on another machine
        for engine in engines:
            await engine.run(guess_specs(4, file=str(file)), NO_SKILL)
    assert FOUND == ["a chair"] * 8
    assert [one.name for one in file.parent.iterdir()] == ["catalog.txt"]


async def test_another_file_under_the_same_path_stops_the_run(tmp_path):
    file = tmp_path / "catalog.txt"
    file.write_text("a chair", encoding="utf-8")
    here = WorkersHere(1)
    here.has_other_machines = True
    async with WorkerPool(here) as pool:
        engine = pooled(pool, files=[file])
        file.write_text("another chair", encoding="utf-8")
        with pytest.raises(ConfigError, match=r"with another size.*a disk that all machines share"):
            await engine.run(guess_specs(4), NO_SKILL)


def test_a_file_that_is_too_large_to_be_sent_has_to_be_there(tmp_path):
    with pytest.raises(ConfigError, match="too large to be sent"):
        lacks(SharedFile(str(tmp_path / "catalog.txt"), 2**40, None))


def test_a_file_that_cannot_be_written_there_is_named(tmp_path):
    (tmp_path / "data").write_text("no folder", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"catalog\.txt' cannot be written on a worker's machine"):
        put_down(SharedFile(str(tmp_path / "data" / "catalog.txt"), 1, None), b"x")

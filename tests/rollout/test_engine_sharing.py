"""One engine, several callers: one bound, first come first served, no question played twice."""

import asyncio
import threading
from dataclasses import dataclass, field, replace

import pytest

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs, guess_task
from skillwright.core import EpisodeSpec, SkillContext
from skillwright.rollout import (
    EpisodeFinished,
    Limits,
    LocalEngine,
    MemoryRecorder,
    TurnFinished,
)

MODES = pytest.mark.parametrize("mode", ["free", "lockstep"])


class Gated(Bisector):
    """Answers nothing until its gate is opened; counts who waits."""

    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()
        self.waiting = 0
        self.most_waiting = 0

    async def act_batch(self, contexts):
        self.waiting += len(contexts)
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await self.gate.wait()
        finally:
            self.waiting -= len(contexts)
        return await super().act_batch(contexts)


async def settled():
    """Let everything run that can run."""
    for _ in range(20):
        await asyncio.sleep(0)


def only(count, first):
    return [EpisodeSpec(guess_task(f"t{i}"), seed=i) for i in range(first, first + count)]


@MODES
async def test_equal_specs_in_one_call_are_played_and_recorded_once(mode):
    recorder, worlds = MemoryRecorder(), Worlds()
    engine = LocalEngine(Bisector(), worlds, recorder=recorder, mode=mode)
    spec = EpisodeSpec(guess_task("t"), seed=1)
    gate = replace(spec, phase="gate")
    results = await engine.run([spec, gate, spec], NO_SKILL)
    assert [result.spec for result in results] == [spec, gate, spec]
    assert len({replace(result, spec=spec).key for result in results}) == 1
    assert len(worlds.built) == len(recorder.results) == 1


@MODES
async def test_equal_specs_in_concurrent_calls_are_played_and_recorded_once(mode):
    recorder, worlds, agent = MemoryRecorder(), Worlds(), Gated()
    engine = LocalEngine(agent, worlds, recorder=recorder, mode=mode)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.run(guess_specs(3), NO_SKILL)) for _ in range(3)]
        await settled()
        agent.gate.set()
    assert calls[0].result() == calls[1].result() == calls[2].result()
    assert len(worlds.built) == len(recorder.results) == 3


@dataclass(frozen=True)
class Edition:
    """The same text in every version of a bank."""

    waits = False
    version: str

    def context(self, task):
        return SkillContext("Halve.", version=self.version)

    def contexts(self, tasks):
        return [self.context(task) for task in tasks]


@MODES
async def test_a_shared_episode_names_the_skill_version_that_each_caller_asked_with(mode):
    worlds = Worlds()
    engine = LocalEngine(Bisector(), worlds, mode=mode)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(engine.run(guess_specs(2), Edition(v))) for v in ("1", "2")]
    versions = [[result.skill_version for result in call.result()] for call in calls]
    assert versions == [["1", "1"], ["2", "2"]]
    assert len(worlds.built) == 2


@dataclass
class Asked:
    """Notes who is asked, in which thread, and for how many tasks at once."""

    waits: bool
    calls: list[tuple[threading.Thread, int]] = field(default_factory=list)

    def context(self, task):
        return self.contexts([task])[0]

    def contexts(self, tasks):
        self.calls.append((threading.current_thread(), len(tasks)))
        return [SkillContext("Halve.")] * len(tasks)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_run_asks_once_for_all_its_tasks_and_leaves_its_loop_only_where_it_waits(waits):
    source = Asked(waits)
    await LocalEngine(Bisector(), Worlds()).run(guess_specs(5), source)
    ((thread, tasks),) = source.calls
    assert tasks == 5
    assert (thread is not threading.current_thread()) == waits


@MODES
async def test_calls_that_want_each_others_episodes_do_not_block_each_other(mode):
    engine = LocalEngine(Bisector(), Worlds(), limits=Limits(max_concurrent=1), mode=mode)
    async with asyncio.TaskGroup() as group:
        there = group.create_task(engine.run(guess_specs(6), NO_SKILL))
        back = group.create_task(engine.run(guess_specs(6)[::-1], NO_SKILL))
    assert there.result() == back.result()[::-1]


@MODES
async def test_when_the_caller_that_plays_an_episode_is_cancelled_another_takes_over(mode):
    agent, worlds = Gated(), Worlds()
    engine = LocalEngine(agent, worlds, mode=mode)
    first = asyncio.create_task(engine.run(guess_specs(2), NO_SKILL))
    await settled()
    second = asyncio.create_task(engine.run(guess_specs(2), NO_SKILL))
    await settled()
    first.cancel()
    await settled()
    agent.gate.set()
    results = await second
    assert first.cancelled()
    assert [result.reward for result in results] == [1.0, 1.0]
    assert len(worlds.built) == 4
    assert worlds.all_closed


async def test_a_waiting_caller_that_is_cancelled_does_not_stop_the_one_that_plays():
    agent = Gated()
    engine = LocalEngine(agent, Worlds())
    first = asyncio.create_task(engine.run(guess_specs(2), NO_SKILL))
    await settled()
    second = asyncio.create_task(engine.run(guess_specs(2), NO_SKILL))
    await settled()
    second.cancel()
    await settled()
    agent.gate.set()
    assert [result.reward for result in await first] == [1.0, 1.0]
    assert second.cancelled()


@MODES
async def test_one_bound_holds_over_all_calls(mode):
    agent = Gated()
    engine = LocalEngine(agent, Worlds(), limits=Limits(max_concurrent=3), mode=mode)
    async with asyncio.TaskGroup() as group:
        for first in range(0, 12, 4):
            group.create_task(engine.run(only(4, first), NO_SKILL))
        await settled()
        assert agent.waiting == 3
        agent.gate.set()
    assert agent.most_waiting == 3


async def test_callers_are_served_first_come_first_served():
    recorder = MemoryRecorder()
    engine = LocalEngine(Bisector(), Worlds(), limits=Limits(max_concurrent=1), recorder=recorder)
    async with asyncio.TaskGroup() as group:
        for first in range(0, 9, 3):
            group.create_task(engine.run(only(3, first), NO_SKILL))
    assert [result.spec for result in recorder.results] == only(9, 0)


async def test_waves_of_several_callers_take_turns():
    recorder = MemoryRecorder()
    engine = LocalEngine(
        Bisector(),
        Worlds(),
        limits=Limits(max_concurrent=2),
        recorder=recorder,
        mode="lockstep",
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run(only(4, 0), NO_SKILL))
        group.create_task(engine.run(only(2, 4), NO_SKILL))
    assert [result.spec for result in recorder.results] == [*only(2, 0), *only(2, 4), *only(2, 2)]


@MODES
async def test_cancelling_a_run_closes_its_environments_and_leaves_no_task(mode):
    agent, worlds = Gated(), Worlds()
    before = asyncio.all_tasks()
    engine = LocalEngine(agent, worlds, limits=Limits(max_concurrent=4), mode=mode)
    run = asyncio.create_task(engine.run(guess_specs(9), NO_SKILL))
    await settled()
    assert len(worlds.built) == 4
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert worlds.all_closed
    assert asyncio.all_tasks() == before
    agent.gate.set()
    assert len(await engine.run(guess_specs(9), NO_SKILL)) == 9  # every slot was given back


async def test_an_environment_that_is_opening_when_the_run_is_cancelled_is_closed_too():
    class Opening(Guess):
        async def ainit(self, prompt):
            await asyncio.Event().wait()

    worlds = Worlds(Opening)
    run = asyncio.create_task(LocalEngine(Bisector(), worlds).run(guess_specs(2), NO_SKILL))
    await settled()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(worlds.built) == 2
    assert worlds.all_closed


class Callback:
    def __init__(self):
        self.events = []

    def on_turn(self, event):
        self.events.append(event)

    def on_episode(self, event):
        self.events.append(event)


@MODES
async def test_an_observer_sees_every_turn_and_every_episode(mode):
    recorder, callback = MemoryRecorder(), Callback()
    engine = LocalEngine(Bisector(), Worlds(), recorder=recorder, observer=callback, mode=mode)
    (result,) = await engine.run(guess_specs(1), NO_SKILL)
    turns = [TurnFinished(result.spec, 1, turn) for turn in result.trajectory.turns]
    assert callback.events == [*turns, EpisodeFinished(result)]
    callback.events.clear()
    await engine.run(guess_specs(1), NO_SKILL)
    assert callback.events == [EpisodeFinished(result, reused=True)]


async def test_no_specs_give_no_results():
    assert await LocalEngine(Bisector(), Worlds()).run([], NO_SKILL) == []

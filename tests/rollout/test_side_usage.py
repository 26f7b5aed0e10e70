"""What others than the agent consume in an episode reaches its result, and the run's ledger."""

import asyncio

import pytest

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs
from skillwright.core import EnvError, EpisodeSpec, Task, Usage
from skillwright.envs import TextEnv
from skillwright.envs.drive import usage_of
from skillwright.rollout import Limits, LocalEngine, MemoryRecorder
from skillwright.runs import Redactor, RunStore
from skillwright.runs.database import Database

USER = Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.5)
SPEC = EpisodeSpec(Task("t", "guess"), seed=3)


class Talking(Guess):
    """Has a user who hears every guess, and breaks down in the second turn of a sick episode."""

    def __init__(self, is_sick, told=None):
        super().__init__(None, {"seed": 3})
        self.is_sick = is_sick
        self.told = told
        self.spent = USER  # the opening

    def step(self, action):
        self.spent += USER
        if self.is_sick and self.turns == 1:
            raise EnvError("the user is gone")
        return super().step(action)

    def get_usage(self):
        return {"user": self.spent} if self.told is None else self.told


async def play(*envs, retries=1):
    left = list(envs)
    engine = LocalEngine(Bisector(), lambda task: left.pop(0), limits=Limits(retries=retries))
    (result,) = await engine.run([SPEC], NO_SKILL)
    return result


def times(number):
    return sum([USER] * number, Usage())


async def test_a_user_is_counted_by_its_purpose():
    result = await play(Talking(is_sick=False))
    assert result.side_usage == {"user": times(1 + len(result.trajectory.turns))}


async def test_attempts_that_failed_are_counted_too():
    result = await play(Talking(is_sick=True), Talking(is_sick=False))
    assert result.attempts == 2
    assert result.side_usage == {"user": times(3 + 1 + len(result.trajectory.turns))}
    result = await play(Talking(is_sick=True), retries=0)
    assert result.failure is not None
    assert result.side_usage == {"user": times(3)}


async def test_the_ledger_has_it(tmp_path):
    result = await play(Talking(is_sick=True), Talking(is_sick=False))
    with RunStore(Database(tmp_path / "run.sqlite"), Redactor(), lambda: 0.0) as store:
        store.record_episode(result)
        usage = store.usage_by_purpose()
    assert usage["user"] == result.side_usage["user"]
    assert usage["rollout"] == result.trajectory.usage + result.lost_usage


@pytest.mark.parametrize("told", [5, {"user": 5}])
async def test_an_account_that_is_none_takes_no_reward_away(told, caplog):
    result = await play(Talking(is_sick=False, told=told))
    assert (result.reward, result.side_usage) == (1.0, {})
    assert "lost count" in caplog.text


def test_an_environment_from_elsewhere_tells_nothing():
    class Theirs:
        pass

    assert usage_of(Theirs()) == {}
    assert usage_of(TextEnv()) == {}


async def test_an_answer_counts_where_the_environment_fails_at_it():
    result = await play(Talking(is_sick=True), retries=0)
    assert len(result.trajectory.turns) == 1
    assert result.trajectory.usage + result.lost_usage == Usage(calls=2)


async def test_an_answer_counts_where_the_run_stops_before_the_environment_reacts():
    all_wait = asyncio.Barrier(4)

    class Silent(Guess):
        async def astep(self, action):
            await all_wait.wait()
            await asyncio.Event().wait()

    recorder = MemoryRecorder()
    engine = LocalEngine(Bisector(), Worlds(Silent), recorder=recorder)
    work = asyncio.create_task(engine.run(guess_specs(3), NO_SKILL))
    await all_wait.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [one.lost_usage for one in recorder.abandoned] == [Usage(calls=1)] * 3

"""What an engine returns, and when it stops, when something breaks."""

import asyncio
from dataclasses import replace

import pytest

from rollout_worlds import (
    NO_SKILL,
    Bisector,
    Broken,
    Guess,
    Hanging,
    Worlds,
    guess_specs,
    guess_task,
)
from skillwright.core import (
    DataError,
    EnvError,
    EpisodeSpec,
    FailureCause,
    ModelError,
    ModelRefused,
    ModelTimeout,
    PlainSkill,
    RequestRefused,
    StopReason,
)
from skillwright.models import ContextOverflow
from skillwright.rollout import EngineDown, Limits, LocalEngine, MemoryRecorder

MODES = pytest.mark.parametrize("mode", ["free", "lockstep"])
ONCE = Limits(retries=0)


class Moody(Bisector):
    """Raises what it was given, in order; afterwards it plays."""

    def __init__(self, *faults):
        super().__init__()
        self.faults = list(faults)

    async def act_batch(self, contexts):
        if self.faults:
            raise self.faults.pop(0)
        return await super().act_batch(contexts)


class Dead(Bisector):
    """Fails in the same way every time."""

    def __init__(self, fault=None):
        super().__init__()
        self.fault = fault or ModelTimeout("no answer in 60 s")

    async def act_batch(self, contexts):
        raise self.fault


async def play(specs, agent=None, worlds=None, limits=ONCE, skills=NO_SKILL, **settings):
    engine = LocalEngine(agent or Bisector(), worlds or Worlds(), limits=limits, **settings)
    return await engine.run(specs, skills)


def broken(method, fault):
    """An environment whose ``method`` raises."""

    def raises(self, *args, **kwargs):
        raise fault

    return type("Broken", (Guess,), {method: raises})


def replying(**changed):
    """An environment whose steps return something else than they should."""

    def step(self, action):
        output = {"observations": [], "reward": 0.0, "done": True, "metadata": {}}
        return {k: v for k, v in {**output, **changed}.items() if v is not ...}

    return type("Replying", (Guess,), {"step": step})


@MODES
async def test_a_fault_is_a_failure_without_a_reward_and_its_siblings_finish(mode):
    worlds = Worlds(t1=Broken)
    results = await play(guess_specs(3), worlds=worlds, mode=mode)
    assert [result.reward for result in results] == [1.0, None, 1.0]
    assert results[1].failure.cause is FailureCause.ENVIRONMENT
    assert results[1].failure.message == (
        "environment 'guess', task 't1', step 0: KeyError: 'chair 7'"
    )
    assert results[1].stop_reason is StopReason.FAILURE
    assert worlds.all_closed


@MODES
@pytest.mark.parametrize("method", ["__init__", "init", "step", "get_metrics"])
async def test_whatever_an_environment_raises_is_charged_to_it(mode, method):
    worlds = Worlds(broken(method, RuntimeError("burst")))
    (result,) = await play(guess_specs(1), worlds=worlds, mode=mode)
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert "RuntimeError: burst" in result.failure.message
    assert worlds.all_closed


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"reward": float("nan")}, "reward is nan"),
        ({"reward": "high"}, "reward is 'high', not a number"),
        ({"reward": ...}, "lacks 'reward'"),
        ({"observations": "text"}, "messages are 'text'"),
        ({"observations": [{"role": "user"}]}, "not a list of role and content"),
        ({"metadata": None}, "metadata is None, not a mapping"),
    ],
)
async def test_a_step_against_the_contract_is_a_failure_that_names_the_breach(changed, complaint):
    (result,) = await play(guess_specs(1), worlds=Worlds(replying(**changed)))
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert complaint in result.failure.message
    assert "skillwright env check guess" in result.failure.message


@pytest.mark.parametrize("opening", [None, ([],), ([], {}), ("hello", {})])
async def test_an_opening_against_the_contract_is_a_failure(opening):
    worlds = Worlds(type("Mute", (Guess,), {"init": lambda self, prompt: opening}))
    (result,) = await play(guess_specs(1), worlds=worlds)
    assert result.failure.cause is FailureCause.ENVIRONMENT


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (ModelTimeout("slow"), FailureCause.USER),
        (EnvError("the user hung up"), FailureCause.ENVIRONMENT),
        (TimeoutError("its own deadline"), FailureCause.ENVIRONMENT),
    ],
)
async def test_a_fault_inside_an_environment_is_charged_to_what_caused_it(fault, cause):
    (result,) = await play(guess_specs(1), worlds=Worlds(broken("step", fault)))
    assert result.failure.cause is cause
    assert str(fault) in result.failure.message


async def test_an_environment_that_breaks_while_closing_does_not_lose_the_reward(caplog):
    (result,) = await play(guess_specs(1), worlds=Worlds(broken("close", OSError("stuck"))))
    assert result.reward == 1.0
    assert "broke while closing" in caplog.text


@MODES
async def test_a_failed_episode_is_tried_again_in_a_fresh_environment(mode):
    worlds = Worlds()
    agent = Moody(ModelError("502"), ModelError("502"))
    (result,) = await play(
        guess_specs(1), agent=agent, worlds=worlds, limits=Limits(retries=2), mode=mode
    )
    (calm,) = await play(guess_specs(1), mode=mode)
    assert result.attempts == 3
    assert len(worlds.built) == 3
    assert worlds.all_closed
    assert replace(result, attempts=1, wall_s=0.0) == replace(calm, wall_s=0.0)


@MODES
async def test_an_episode_that_keeps_failing_is_reported_with_its_last_fault(mode):
    agent = Moody(ModelError("first"), ModelError("second"), ModelError("third"))
    recorder = MemoryRecorder()
    limits = Limits(retries=1)
    (result,) = await play(guess_specs(1), agent=agent, limits=limits, recorder=recorder, mode=mode)
    assert result.attempts == 2
    assert result.failure.message == "second"
    assert recorder.results == [result]


@MODES
async def test_a_recorded_failure_is_played_again(mode):
    recorder = MemoryRecorder()
    await play(guess_specs(1), agent=Moody(ModelError("502")), recorder=recorder, mode=mode)
    (result,) = await play(guess_specs(1), recorder=recorder, mode=mode)
    assert result.reward == 1.0


async def test_in_lockstep_a_model_fault_fails_the_whole_batch_and_all_are_tried_again():
    worlds = Worlds()
    limits = Limits(retries=1)
    agent = Moody(ModelError("502"))
    results = await play(guess_specs(3), agent, worlds, limits, mode="lockstep")
    assert [result.attempts for result in results] == [2, 2, 2]
    assert [result.reward for result in results] == [1.0, 1.0, 1.0]


@MODES
async def test_a_refusal_stops_the_run_at_once_and_closes_every_environment(mode):
    worlds = Worlds()
    agent = Dead(ModelRefused("401: wrong key"))
    recorder = MemoryRecorder()
    with pytest.raises(ModelRefused, match="401: wrong key"):
        await play(guess_specs(5), agent, worlds, Limits(), mode=mode, recorder=recorder)
    assert worlds.all_closed
    assert recorder.results == []


async def test_a_refused_user_simulator_stops_the_run_too():
    with pytest.raises(ModelRefused, match="no such model"):
        await play(guess_specs(1), worlds=Worlds(broken("step", ModelRefused("no such model"))))


@MODES
async def test_a_refusal_of_one_request_is_a_failure_that_is_not_tried_again(mode):
    agent = Dead(RequestRefused("blocked by the content filter"))
    (result,) = await play(guess_specs(1), agent, limits=Limits(retries=2), mode=mode)
    assert result.failure.cause is FailureCause.MODEL_REFUSED
    assert result.attempts == 1


class Narrow(Bisector):
    """Finds a conversation too long once it has a given number of messages."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    async def act_batch(self, contexts):
        if any(len(context.messages) > self.most for context in contexts):
            raise ContextOverflow("maximum context length is 4096 tokens")
        return await super().act_batch(contexts)


@MODES
async def test_an_endpoint_that_finds_a_conversation_too_long_cuts_that_episode_alone(mode):
    specs = [*guess_specs(2, upper=2), EpisodeSpec(guess_task("long", upper=10**6), seed=0)]
    *short, cut = await play(specs, Narrow(most=6), mode=mode)
    assert cut.stop_reason is StopReason.CONTEXT
    assert cut.reward == 0.0
    assert len(cut.trajectory.turns) == 3
    assert [result.reward for result in short] == [1.0, 1.0]


@MODES
async def test_the_refusal_of_one_request_leaves_its_siblings_alone(mode):
    class Picky(Bisector):
        async def act_batch(self, contexts):
            if any("to 7." in context.messages[1]["content"] for context in contexts):
                raise RequestRefused("blocked by the content filter")
            return await super().act_batch(contexts)

    specs = [*guess_specs(2), EpisodeSpec(guess_task("seven", upper=7), seed=0)]
    *calm, blocked = await play(specs, Picky(), mode=mode)
    assert blocked.failure.cause is FailureCause.MODEL_REFUSED
    alone = await play(guess_specs(2), mode=mode)
    assert [result.trajectory for result in calm] == [result.trajectory for result in alone]


@MODES
async def test_an_endpoint_that_finds_the_opening_too_long_is_a_failure(mode):
    (result,) = await play(guess_specs(1), Narrow(most=1), mode=mode)
    assert result.failure.cause is FailureCause.MODEL_REFUSED


async def test_a_blocked_user_simulator_is_a_failure_of_the_user():
    worlds = Worlds(broken("step", RequestRefused("blocked")))
    (result,) = await play(guess_specs(1), worlds=worlds)
    assert result.failure.cause is FailureCause.USER


@MODES
@pytest.mark.parametrize("bug", [ZeroDivisionError("agent"), AttributeError("agent")])
async def test_a_bug_in_the_agent_escapes_as_it_is(mode, bug):
    worlds = Worlds()
    with pytest.raises(type(bug), match="agent"):
        await play(guess_specs(3), Moody(bug), worlds, Limits(), mode=mode)
    assert worlds.all_closed


async def test_an_environment_that_is_not_known_is_a_usage_error():
    def make_env(task):
        raise DataError(f"no environment {task.env!r}")

    with pytest.raises(DataError, match="no environment 'guess'"):
        await play(guess_specs(2), worlds=make_env)


@MODES
async def test_a_passed_deadline_is_a_failure_and_its_siblings_finish(mode):
    worlds = Worlds(t1=Hanging)
    # Long enough for the siblings on a busy machine: they take a millisecond.
    limits = Limits(retries=0, episode_timeout_s=0.25)
    results = await play(guess_specs(3), worlds=worlds, limits=limits, mode=mode)
    assert [result.reward for result in results] == [1.0, None, 1.0]
    assert results[1].failure.cause is FailureCause.TIMEOUT
    assert results[1].failure.message == "over 0.25 s, in turn 0"
    assert results[1].stop_reason is StopReason.TIMEOUT
    assert worlds.all_closed


@MODES
async def test_an_agent_that_never_answers_runs_into_the_deadline(mode):
    class Silent(Bisector):
        async def act_batch(self, contexts):
            await asyncio.Event().wait()

    limits = Limits(retries=0, episode_timeout_s=0.01)
    results = await play(guess_specs(2), Silent(), limits=limits, mode=mode)
    assert {result.failure.cause for result in results} == {FailureCause.TIMEOUT}


@MODES
async def test_the_deadline_counts_from_admission(mode):
    """Two hanging episodes one after the other each get their whole time."""
    limits = Limits(retries=0, episode_timeout_s=0.01, max_concurrent=1)
    results = await play(guess_specs(2), worlds=Worlds(Hanging), limits=limits, mode=mode)
    assert [result.failure.cause for result in results] == [FailureCause.TIMEOUT] * 2
    assert all(0.005 < result.wall_s < 5 for result in results)


@MODES
async def test_an_opening_that_does_not_fit_is_a_failure_and_is_not_tried_again(mode):
    worlds = Worlds()
    (result,) = await play(
        guess_specs(1),
        worlds=worlds,
        skills=PlainSkill("long " * 100),
        limits=Limits(max_prompt_chars=100),
        mode=mode,
    )
    assert result.failure.cause is FailureCause.MODEL_REFUSED
    assert "over limits.max_prompt_chars = 100" in result.failure.message
    assert result.attempts == 1
    assert worlds.all_closed


@MODES
async def test_a_row_of_failures_stops_the_run_and_says_what_failed_most(mode):
    worlds = Worlds(t0=broken("init", OSError("no such game")))
    limits = Limits(retries=0, give_up_after=4, max_concurrent=2)
    recorder = MemoryRecorder()
    with pytest.raises(EngineDown, match=r"last 4 episodes all failed, 3 .*'timeout'.*no answer"):
        await play(guess_specs(50), Dead(), worlds, limits, mode=mode, recorder=recorder)
    assert len(recorder.results) == 4
    assert worlds.all_closed


async def test_a_wave_with_a_reward_in_it_is_recorded_as_a_whole_and_goes_on():
    worlds = Worlds(**{f"t{i}": Broken for i in range(5)})
    limits = Limits(retries=0, give_up_after=3)
    results = await play(guess_specs(6), worlds=worlds, limits=limits, mode="lockstep")
    assert [result.reward for result in results] == [None] * 5 + [1.0]


async def test_one_reward_starts_the_count_of_failures_again():
    specs = guess_specs(9)
    worlds = Worlds(**{f"t{i}": Broken for i in range(9) if i % 3})
    limits = Limits(retries=0, give_up_after=3, max_concurrent=1)
    results = await play(specs, worlds=worlds, limits=limits)
    assert [result.reward for result in results] == [1.0, None, None] * 3


async def test_an_engine_that_is_down_says_so_at_the_next_failure():
    engine = LocalEngine(Dead(), Worlds(), limits=Limits(retries=0, give_up_after=3))
    with pytest.raises(EngineDown):
        await engine.run(guess_specs(3), NO_SKILL)
    with pytest.raises(EngineDown):
        await engine.run([EpisodeSpec(guess_task("one"), seed=0)], NO_SKILL)


async def test_without_a_bound_an_engine_never_gives_up():
    limits = Limits(retries=0, give_up_after=None, max_failure_share=None)
    assert len(await play(guess_specs(50), Dead(), limits=limits)) == 50


async def test_a_wrong_number_of_acts_is_a_bug_and_escapes():
    class Forgetful(Bisector):
        async def act_batch(self, contexts):
            return []

    with pytest.raises(ValueError, match="not enough values"):
        await play(guess_specs(1), Forgetful())
    with pytest.raises(ValueError, match="shorter"):
        await play(guess_specs(1), Forgetful(), mode="lockstep")

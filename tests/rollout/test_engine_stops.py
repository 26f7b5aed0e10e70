"""What stops an engine at once: an endpoint that is down for good."""

import pytest

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs
from skillwright.core import FailureCause, StopReason
from skillwright.models import ContextOverflow, EndpointDown
from skillwright.rollout import Limits, LocalEngine, MemoryRecorder

MODES = pytest.mark.parametrize("mode", ["free", "lockstep"])


class Failing(Bisector):
    """Plays until its endpoint fails, always in the same way."""

    def __init__(self, fault, plays=3):
        super().__init__()
        self.fault = fault
        self.plays = plays

    async def act_batch(self, contexts):
        self.plays -= 1
        if self.plays < 0:
            raise self.fault
        return await super().act_batch(contexts)


def engine_of(agent, worlds=None, mode="free"):
    limits = Limits(max_concurrent=1, retries=0, give_up_after=None, max_failure_share=None)
    recorder = MemoryRecorder()
    made = LocalEngine(agent, worlds or Worlds(), limits=limits, recorder=recorder, mode=mode)
    return made, recorder


@MODES
async def test_an_endpoint_that_is_down_for_good_stops_the_run_and_what_was_played_stays(mode):
    worlds = Worlds()
    down = EndpointDown("http://a/v1 is taken to be down.", for_good=True)
    engine, recorder = engine_of(Failing(down, plays=8), worlds, mode)
    with pytest.raises(EndpointDown, match="taken to be down"):
        await engine.run(guess_specs(12, upper=2), NO_SKILL)
    assert 0 < len(recorder.results) < 12
    assert all(result.reward is not None for result in recorder.results)
    assert worlds.all_closed
    engine.agent.plays = 100
    results = await engine.run(guess_specs(12, upper=2), NO_SKILL)
    assert all(result.reward is not None for result in results)


@MODES
async def test_an_endpoint_that_one_call_did_not_wait_out_is_a_failure_of_that_episode(mode):
    engine, _ = engine_of(Failing(EndpointDown("http://a/v1 is taken to be down.")), mode=mode)
    results = await engine.run(guess_specs(4), NO_SKILL)
    assert results[-1].failure.cause is FailureCause.MODEL


async def test_a_user_whose_endpoint_is_down_for_good_stops_the_run_too():
    class Mute(Guess):
        def step(self, action):
            raise EndpointDown("the user's endpoint is taken to be down.", for_good=True)

    engine, _ = engine_of(Bisector(), Worlds(Mute))
    with pytest.raises(EndpointDown, match="the user's endpoint"):
        await engine.run(guess_specs(2), NO_SKILL)


@MODES
async def test_a_first_prompt_that_does_not_fit_is_told_by_its_stop_reason(mode):
    agent = Failing(ContextOverflow("maximum context length is 9"), plays=0)
    engine, _ = engine_of(agent, mode=mode)
    (result,) = await engine.run(guess_specs(1), NO_SKILL)
    assert result.failure.cause is FailureCause.MODEL_REFUSED
    assert result.stop_reason is StopReason.CONTEXT

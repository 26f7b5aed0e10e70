"""An episode's reward is the sum of its steps' rewards, and lies in [0, 1]."""

import pytest

from rollout_worlds import NO_SKILL, Bisector, Guess, Worlds, guess_specs
from skillwright.core import FailureCause
from skillwright.rollout import Limits, LocalEngine


async def played(*rewards):
    """Play an episode whose steps have these rewards."""

    class Paying(Guess):
        def step(self, action):
            self.turns += 1
            done = self.turns == len(rewards)
            said = [] if done else [{"role": "user", "content": "Higher."}]
            reward = rewards[self.turns - 1]
            return {"observations": said, "reward": reward, "done": done, "metadata": {}}

    engine = LocalEngine(Bisector(), Worlds(Paying), limits=Limits(retries=0))
    (result,) = await engine.run(guess_specs(1, upper=10**6), NO_SKILL)
    return result


@pytest.mark.parametrize(
    ("rewards", "total"),
    [((1e308, 1e308), "inf"), ((2.0,), "2"), ((0.6, 0.6), "1.2"), ((-1.0,), "-1")],
)
async def test_a_sum_outside_of_the_contract_is_a_failure_and_no_score(rewards, total):
    result = await played(*rewards)
    assert result.reward is None
    assert result.failure.cause is FailureCause.ENVIRONMENT
    assert f"the sum of the step rewards is {total}, and an episode's" in result.failure.message


@pytest.mark.parametrize(
    ("rewards", "total"), [((-0.5, 1.5), 1.0), ((0.25, 0.5), 0.75), ((1.0, 1e-15), 1.0)]
)
async def test_a_step_may_pay_what_it_likes_where_the_sum_is_a_share(rewards, total):
    assert (await played(*rewards)).reward == total

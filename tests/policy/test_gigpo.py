"""The step advantage: choices before the same observation, compared."""

import pytest

from skillwright.core import ConfigError
from skillwright.policy import StepAdvantage, step_advantages
from skillwright.policy.groups import returns_to_go


def test_returns_are_discounted_from_each_step_on():
    assert returns_to_go([0.0, 0.0, 1.0], 0.5) == [0.25, 0.5, 1.0]
    assert returns_to_go([], 0.5) == []


def test_choices_before_one_observation_are_compared_and_others_are_not():
    settings = StepAdvantage(discount=1.0, scale_by_std=False)
    found = step_advantages([["a", "b"], ["a", "c"]], [[0.0, 1.0], [0.0, 0.0]], settings)
    assert found == [[0.5, 0.0], [-0.5, 0.0]]


def test_a_place_that_is_met_twice_in_one_episode_is_compared_with_itself():
    settings = StepAdvantage(discount=0.5, scale_by_std=False)
    assert step_advantages([["a", "a"]], [[0.0, 1.0]], settings) == [[-0.25, 0.25]]


def test_the_deviation_is_the_unbiased_one_of_the_place():
    settings = StepAdvantage(weight=2.0, discount=1.0)
    found = step_advantages([["a"], ["a"], ["a"]], [[1.0], [0.0], [0.0]], settings)
    assert [one[0] for one in found] == pytest.approx(
        [2 * 1.1547, -2 * 0.57735, -2 * 0.57735], rel=1e-4
    )


def test_equal_returns_have_an_advantage_of_exactly_zero():
    assert step_advantages([["a"], ["a"]], [[0.3], [0.3]], StepAdvantage()) == [[0.0], [0.0]]


@pytest.mark.parametrize("discount", [0.0, 1.5])
def test_a_discount_out_of_range_is_refused(discount):
    with pytest.raises(ConfigError, match="discount"):
        StepAdvantage(discount=discount)

"""Advantages of a group: the listed values, and what must never happen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import ConfigError
from skillwright.policy import AdvantageSettings, RewardInvalid, group_advantages


@pytest.fixture
def cases(reference_data):
    vectors = json.loads((reference_data / "skillrl_vectors.json").read_text(encoding="utf-8"))
    return {case["name"]: case for case in vectors["grpo_advantages"]["cases"]}


def test_the_listed_group_has_the_listed_advantages(cases):
    case = cases["same group, statistics over trajectories"]
    advantages = group_advantages(case["scores"], AdvantageSettings())
    assert advantages[0] == pytest.approx(case["adv_win"], rel=1e-5)
    assert advantages[1:] == pytest.approx([case["adv_loss"]] * 7, rel=1e-5)


@pytest.mark.parametrize("name", ["zero variance, all win", "zero variance, all lose"])
def test_equal_rewards_have_an_advantage_of_exactly_zero(cases, name):
    assert group_advantages(cases[name]["scores"], AdvantageSettings()) == [0.0] * 8


@given(st.floats(-10, 10), st.integers(2, 9))
def test_equal_rewards_give_zero_whatever_they_are(reward, size):
    for settings in (AdvantageSettings(), AdvantageSettings(leave_one_out=True)):
        assert group_advantages([reward] * size, settings) == [0.0] * size


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rewards):
    advantages = group_advantages(rewards, AdvantageSettings())
    assert sum(advantages) == pytest.approx(0, abs=1e-6)
    paired = sorted(zip(rewards, advantages, strict=True))
    assert [advantage for _, advantage in paired] == sorted(advantages)


def test_without_deviation_an_advantage_is_the_distance_from_the_mean():
    settings = AdvantageSettings(scale_by_std=False)
    assert group_advantages([1, 0, 0, 0], settings) == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_leave_one_out_compares_with_the_mean_of_the_others():
    settings = AdvantageSettings(scale_by_std=False, leave_one_out=True)
    assert group_advantages([1, 0, 0, 0], settings) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])


def test_a_group_of_one_cannot_be_compared():
    with pytest.raises(ValueError, match="nothing to be compared"):
        group_advantages([10.0], AdvantageSettings())


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(reward):
    with pytest.raises(RewardInvalid, match="episode 1 of a group"):
        group_advantages([0.0, reward], AdvantageSettings())


def test_a_deviation_needs_a_floor():
    with pytest.raises(ConfigError, match="eps is 0"):
        AdvantageSettings(eps=0)

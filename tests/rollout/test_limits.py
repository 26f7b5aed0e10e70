import pytest

from skillwright.rollout import Limits


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_turns", 0),
        ("max_concurrent", 0),
        ("max_prompt_chars", -1),
        ("give_up_after", 0),
        ("max_failure_share", 1.5),
        ("max_failure_share", float("nan")),
        ("retries", -1),
        ("episode_timeout_s", 0.0),
        ("episode_timeout_s", float("nan")),
    ],
)
def test_a_bound_out_of_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=field):
        Limits(**{field: value})


def test_only_bounds_that_can_change_a_reward_belong_to_the_identity():
    hurried = Limits(max_concurrent=1, retries=0, episode_timeout_s=1.0, give_up_after=None)
    assert hurried.identity() == Limits().identity()
    assert Limits(max_turns=3).identity() != Limits().identity()
    assert Limits(max_prompt_chars=3).identity() != Limits().identity()

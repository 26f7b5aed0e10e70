"""Turns that become one row, and rows that are refused."""

import pytest

from skillwright.policy import ForeignRow, Row, TokenContext, joined
from skillwright.policy.backend import check_encoding
from skillwright.policy.update import by_episode


def turn(prompt, answer, *, advantage=1.0, episode="a", number=0, **changes):
    fields = {
        "context": TokenContext(tuple(prompt), ((7, 9),) + (None,) * (len(answer) - 1)),
        "token_ids": tuple(answer),
        "old_logprobs": (-0.5,) * len(answer),
        "loss_mask": (True,) * len(answer),
        "encoding": "e",
        "advantage": advantage,
        "group": "g",
        "episode": episode,
        "turn": number,
    }
    return Row(**(fields | changes))


def test_prompts_that_continue_make_one_row_with_the_world_masked():
    first = turn([1, 2], [3, 4], advantage=0.5)
    second = turn([1, 2, 3, 4, 5, 6], [7], advantage=-1.0, number=1)
    (whole,) = joined([first, second])
    assert whole.context.prompt_ids == (1, 2)
    assert whole.token_ids == (3, 4, 5, 6, 7)
    assert whole.loss_mask == (True, True, False, False, True)
    assert whole.advantage == (0.5, 0.5, 0.0, 0.0, -1.0)
    assert whole.old_logprobs == (-0.5, -0.5, 0.0, 0.0, -0.5)
    assert whole.context.allowed == ((7, 9), None, None, None, (7, 9))
    assert whole.turn == 0


def test_a_joined_row_knows_the_engine_of_each_turn():
    first = turn([1, 2], [3], sampler_logprobs=(-0.7,))
    (whole,) = joined([first, turn([1, 2, 3, 4], [5], number=1)])
    assert whole.sampled_logprobs == (-0.7, 0.0, -0.5)  # the policy itself drew the second
    (whole,) = joined([turn([1, 2], [3]), turn([1, 2, 3, 4], [5], number=1)])
    assert whole.sampled_logprobs == whole.old_logprobs


def test_a_prompt_that_was_rebuilt_starts_a_new_row():
    rows = [turn([1, 2], [3]), turn([1, 9, 3, 4], [5], number=1)]
    assert joined(rows) == rows


def test_turns_of_different_temperatures_stay_apart():
    rows = [turn([1], [2]), turn([1, 2], [3], temperature=0.5)]
    assert joined(rows) == rows


def test_a_turn_that_was_left_out_is_the_worlds():
    (whole,) = joined([turn([1], [2]), turn([1, 2, 3, 4, 5], [6], number=2)])
    assert whole.token_ids == (2, 3, 4, 5, 6)
    assert whole.chosen == 2


def test_episodes_are_never_joined():
    rows = [turn([1], [2]), turn([1, 2], [3], episode="b")]
    assert by_episode(rows) == rows


def test_rows_of_another_encoding_are_named():
    with pytest.raises(ForeignRow, match="episode 'a', turn 3"):
        check_encoding([turn([1], [2], number=3)], "other")


def test_a_row_matters_where_a_chosen_token_has_an_advantage():
    assert turn([1], [2]).matters()
    assert not turn([1], [2], advantage=0.0).matters()
    assert not turn([1], [2], weight=0.0).matters()
    assert not turn([1], [2, 3], advantage=(0.0, 1.0), loss_mask=(True, False)).matters()

"""The irrelevant text of the same length."""

import pytest

from skillwright.jobs.text.judging import placebo_text
from skillwright.worlds.scripted.skilltext import read_habits, read_stances


@pytest.mark.parametrize("length", [0, 1, 40, 999, 12_345])
def test_a_placebo_has_about_the_length_that_was_asked_for_and_ends_with_a_word(length):
    text = placebo_text(length)
    assert length - 30 <= len(text) <= length
    assert not text.endswith(" ")


def test_a_placebo_says_nothing_about_a_household():
    text = placebo_text(5_000)
    assert not read_stances(text)
    assert not read_habits(text)

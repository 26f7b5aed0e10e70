"""What an answer does is the same for whoever reads it."""

import pytest

from skillwright.core.agent import action_in, tagged_action

INNER = "<action><action>look</action></action>"


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("go to cabinet 1", "go to cabinet 1"),
        ("  look \n", "look"),
        ("<think>or look?</think><action> open fridge 1 </action>", "open fridge 1"),
        ("<action>look</action> no: <action>go to bed 1</action> so.", "go to bed 1"),
        ("<Action>look</ACTION>", "look"),
        ("<action>search[a\nb]</action>", "search[a\nb]"),
        (INNER, "look"),
        ("<action></action>", ""),
        ("<action>look", "<action>look"),
        ("", ""),
    ],
)
def test_an_action_is_what_stands_in_the_last_complete_tag_or_all_of_it(answer, action):
    assert action_in(answer) == action


def test_an_answer_without_a_tag_has_no_tagged_action():
    assert tagged_action("look") is None
    assert tagged_action("<action></action>") == ""


def test_thousands_of_open_tags_are_read_at_once():
    answer = "<action>" * 100_000
    assert action_in(answer) == answer

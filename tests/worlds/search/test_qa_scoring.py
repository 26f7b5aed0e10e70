"""Answers are compared by SQuAD's rules: exact match and token F1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.worlds.search import answer_in, exact_match, normalized, token_f1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The  Eiffel\n Tower!", "eiffel tower"),
        ("a cat, an owl and the dog", "cat owl and dog"),
        ("Theatre Anna", "theatre anna"),  # articles are words, not beginnings
        ("U.S.A.", "usa"),
        ("twenty-one", "twentyone"),
        ("the", ""),
        ("1,000", "1000"),
    ],
)
def test_case_punctuation_articles_and_blanks_do_not_count(text, plain):
    assert normalized(text) == plain


def test_any_of_several_right_answers_is_right():
    assert exact_match("the NYC.", ["New York", "NYC"]) == 1.0
    assert exact_match("New York City", ["New York", "NYC"]) == 0.0
    assert exact_match("anything", []) == 0.0


@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [
        ("in New York", ["New York"], 0.8),  # precision 2/3, recall 1
        ("York", ["New York"], 2 / 3),
        ("York", ["New York", "york"], 1.0),
        ("Boston", ["New York"], 0.0),
        ("york york", ["New York"], 0.5),  # a word counts as often as it stands there
        ("the", ["a"], 1.0),  # nothing is left of either
        ("the", ["York"], 0.0),
        ("", ["York"], 0.0),
    ],
)
def test_f1_is_the_harmonic_mean_of_precision_and_recall_of_words(answer, right, f1):
    assert token_f1(answer, right) == pytest.approx(f1)


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_f1_lies_between_exact_match_and_one(answer, right):
    assert exact_match(answer, right) <= token_f1(answer, right) <= 1.0
    assert exact_match(right[0], right) == token_f1(right[0], right) == 1.0


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("  Paris \n", "Paris"),
        ("I think <answer> Paris </answer>.", "Paris"),
        ("<answer>Rome</answer> no: <ANSWER>Paris</ANSWER>", "Paris"),
        ("<answer>Paris", "Paris"),
        ("<answer>Rome</answer> <answer>Paris", "Paris"),
        ("<answer><answer>Paris</answer>", "Paris"),
        ("<think>Rome? no</think>\nParis", "Paris"),
        ("Paris <think>or Rome? <think>", "Paris"),  # cut off: what was thought is no answer
        ("<answer></answer>", ""),
        ("Rome? no</think>Paris", "Paris"),
        ("<thinking>Rome?</thinking>Paris", "Paris"),
        ("<think>Rome: <answer>Rome</answer>?</think>Paris", "Paris"),
        ("<think>perhaps <answer>Rome</answer> or", ""),
        ("<think>It is <answer>Paris</answer>", "Paris"),
    ],
)
def test_an_answer_is_in_the_last_tag_or_is_the_reply_without_thoughts(reply, answer):
    assert answer_in(reply) == answer

"""Replies and answers of many languages and models: what is right scores 1, what is near scores 0.

The pairs are in ``scorer_pairs.jsonl``, with characters that are hard to see as escapes.
"""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.envs.answers import answer_in
from skillwright.envs.table.settings import read_settings

LETTERS = (
    "ais 5.,/^{}[]\"'\\|*%-\u0130\u0131\u00df\u0301\u00b4\u2018\u201c\u2014\u00d7\u2075\u00bd\u0663"
    "\u4e09\u4e07\u304c\uff76\uff9e\u0e01\u0e49\u0e4c"
)
PIECES = (
    "\\frac",
    "{}",
    "\\boxed{",
    "\\sqrt",
    "answer is ",
    "not ",
    "million",
    "minus ",
    "1e",
    "10^",
)
PAIRS = [
    tuple(json.loads(line).values())
    for line in Path(__file__).with_name("scorer_pairs.jsonl").read_text("utf-8").splitlines()
]


def score_of(scorer, right, reply):
    made = read_settings({"scorer": scorer}).scorer
    return made.grade(answer_in(reply), right).score


@pytest.mark.parametrize(("scorer", "right", "reply", "score"), PAIRS)
def test_a_right_answer_scores_1_and_one_that_looks_like_it_0(scorer, right, reply, score):
    assert score_of(scorer, right, reply) == score


def test_there_are_enough_pairs_to_trust_the_scorers():
    assert sum(score == 1 for *_, score in PAIRS) >= 70
    assert sum(score == 0 for *_, score in PAIRS) >= 120


@pytest.mark.parametrize(
    ("scorer", "right", "reply"),
    [
        ("exact", "don't", "don\u2019t"),
        ("one_of", "don't | do not", "don\u2019t"),
        ("contains", "don't", "I don\u2019t"),
        ("f1", "caf\u00e9", "cafe\u0301"),
        ("json", '{"a": "don\'t"}', '{"a": "don\u2019t"}'),
    ],
)
def test_without_folding_only_the_same_characters_count(scorer, right, reply):
    assert score_of({"kind": scorer}, right, reply) == 1.0
    assert score_of({"kind": scorer, "fold": False}, right, reply) == 0.0


@pytest.mark.parametrize(
    ("scorer", "right", "reply", "reason"),
    [
        ("exact", "yes", "Yes!", "it differs from the answer only in case or punctuation"),
        ("exact", "A", "(A)", "it differs from the answer only in case or punctuation"),
        ("exact", "1.5", "15", "another answer"),
        ("exact", "1", "1.0", "it is the answer's number, written differently"),
        ("exact", "A", "Answer: A", "the answer is in the reply, with more text around it"),
        ("exact", '["red", "crimson"]', "red", "it is one of the answers that the cell lists"),
        ("exact", "yes", "", "the reply is empty"),
        ("contains", "5", "5.5", "the answer is only a part of a word or a number of the reply"),
        ("one_of", "red | blue", "Red!", "it differs from the answer only in case or punctuation"),
        ("number", "5", "five", "no number found"),
        ("number", "5", "6", "another number"),
        ("json", '{"x": 1}', "none", "no JSON object found"),
        ("json", '{"x": 1}', '{"y": 1}', "the final object has no field x"),
        ("json", '{"x": 1, "y": 2}', '{"x": 3, "y": 2}', "another value in x"),
        ("json", '{"x": 1}', '{"x": 1', "the reply breaks off inside its final JSON object"),
    ],
)
def test_a_wrong_answer_has_a_reason_that_rows_share(scorer, right, reply, reason):
    assert read_settings({"scorer": scorer}).scorer.grade(reply, right).reason == reason


@given(
    st.sampled_from(["exact", "contains", "one_of", "f1", "number", "json"]),
    st.lists(st.sampled_from([*LETTERS, *PIECES]), max_size=30).map("".join),
    st.lists(st.sampled_from([*LETTERS, *PIECES]), max_size=30).map("".join),
)
def test_no_reply_breaks_a_scorer(scorer, right, reply):
    rights = {"number": "5", "json": '{"a": 5}'}
    made = read_settings({"scorer": scorer}).scorer
    wanted = rights.get(scorer, f"a{right}")
    assert 0 <= made.grade(reply, wanted).score <= 1
    assert made.grade(made.gold(wanted), wanted).score == 1.0


@pytest.mark.parametrize(
    "part",
    [
        *(
            "5 ",
            "1,",
            "9",
            "{",
            '{"a":',
            "\\frac{",
            "\\boxed{",
            "answer ",
            "\u4e94",
            "a",
            "<answer>",
        ),
        *("5/", "^", ".", " ", '"', "*", "{a:1}", "'a' ", "5.5 ", "</think>", "\u00b2", "sqrt("),
    ],
)
@pytest.mark.parametrize(
    ("scorer", "right"),
    [
        *(("exact", "a"), ("contains", "5"), ("contains", "\u4e94"), ("one_of", "a | b")),
        *(("f1", "a"), ("number", "5"), ("json", '{"a": 5}')),
    ],
)
def test_a_very_long_reply_takes_bounded_time(scorer, right, part):
    begun = time.process_time()
    score_of(scorer, right, part * (100_000 // len(part)))
    assert time.process_time() - begun < 10

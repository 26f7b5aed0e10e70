"""Tasks that say nearly the same are found by their texts, and no others."""

import random

import pytest

from skillwright.datasets.clusters import near_clusters

COUNTRIES = {"France": "Paris", "Peru": "Lima", "Kenya": "Nairobi", "Norway": "Oslo"}
COUNTRIES |= {"Chile": "Santiago", "Egypt": "Cairo", "Japan": "Tokyo", "Iran": "Tehran"}
ENDS = ("now", "kindly", "soon", "today", "thanks", "friend")


def groups(texts, answers=None):
    """Return the number of independent texts."""
    named = {f"t{i}": text for i, text in enumerate(texts)}
    found = near_clusters(named, dict(zip(named, answers or [""] * len(named), strict=True)))
    return len({found.get(name, name) for name in named})


@pytest.mark.parametrize("copies", [2, 4, 6])
def test_copies_that_differ_in_a_word_are_one_cluster(copies):
    texts = [f"question val{i} please {end}" for i in range(10) for end in ENDS[:copies]]
    assert groups(texts, ["red"] * len(texts)) == 10


def test_copies_of_questions_in_plain_words_are_found():
    verbs = ("Name", "State", "Give", "Tell me")
    texts = [f"{verb} the capital of {country}." for country in COUNTRIES for verb in verbs]
    assert groups(texts, [COUNTRIES[text.split()[-1][:-1]] for text in texts]) == len(COUNTRIES)


def test_long_texts_may_differ_in_some_words():
    rng, words = random.Random(1), [f"{a}{b}{c}" for a in "bdk" for b in "aeiou" for c in "lmnrst"]
    texts = [" ".join(rng.choices(words, k=60)) for _ in range(20)]
    altered = [text.replace(text.split()[7], "instead", 1) for text in texts]
    assert groups([*texts, *altered]) == 20


@pytest.mark.parametrize(
    "texts",
    [
        [f"What is the capital of {country}?" for country in COUNTRIES],
        [f"Write a haiku about {word}." for word in ENDS],
        [f"Hello, my email number {i} needs a look." for i in range(20)],
        [f"What is {i} + {j}?" for i in range(4) for j in range(4)],
        [f"What is 7 {sign} 3?" for sign in "+-*/"],
        ["The lift goes up.", "The lift goes down.", "A cat sat.", "It rains."],
    ],
)
def test_questions_of_one_template_are_no_copies(texts):
    assert groups(texts) == groups(texts, ["yes"] * len(texts)) == len(texts)


def test_texts_with_other_answers_are_no_copies():
    texts = ["The meal was surely good today.", "The meal was hardly good today."]
    assert groups(texts, ["yes", "no"]) == 2


def test_equal_texts_but_for_form_are_copies_and_blank_ones_are_not():
    assert groups(["Read it again!", "read  it again", "", "", "Other."], [""] * 5) == 4


def test_five_thousand_texts_are_compared():
    rng = random.Random(2)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(3000)]
    texts = [" ".join(rng.choices(words, k=40)) for _ in range(2500)]
    assert groups([*texts, *(f"{text} indeed" for text in texts)]) == 2500

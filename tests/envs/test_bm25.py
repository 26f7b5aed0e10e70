"""BM25 over texts in a folder: the formula, the order, and what is a word."""

import math

import numpy as np
import pytest

from skillwright.envs import bm25
from skillwright.envs.bm25 import Bm25, best, build_bm25, terms_of

TEXTS = [
    "The heron stands in the harbor.",
    "A clock, a clock and a heron.",
    "Nothing of that kind.",
    "Harbor herons: the harbor of herons.",
]


def built(folder, texts):
    folder.mkdir()
    assert build_bm25(folder, iter(texts)) == len(texts)
    return Bm25(folder)


def by_formula(texts, query, k1=0.9, b=0.4):
    """Score as the definition says, text by text."""
    words = [terms_of(text) for text in texts]
    mean = sum(map(len, words)) / len(words)
    scores = [0.0] * len(texts)
    for term in terms_of(query):
        holds = sum(term in one for one in words)
        idf = math.log(1 + (len(texts) - holds + 0.5) / (holds + 0.5))
        for at, one in enumerate(words):
            count = one.count(term)
            scores[at] += idf * count / (count + k1 * (1 - b + b * len(one) / mean))
    return scores


@pytest.mark.parametrize("query", ["heron", "clock heron", "harbor harbor clock", "the herons"])
def test_the_order_is_that_of_the_formula(tmp_path, query):
    scores = by_formula(TEXTS, query)
    expected = sorted((at for at in range(4) if scores[at] > 0), key=lambda at: (-scores[at], at))
    assert built(tmp_path / "i", TEXTS).search(query, 4) == expected


def test_pieces_make_the_same_index_as_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.geometric(0.02, 30)) for _ in range(100)]
    whole = built(tmp_path / "whole", texts)
    monkeypatch.setattr(bm25, "_PIECE", 7)
    parts = built(tmp_path / "parts", texts)
    for text in texts[:20]:
        assert parts.search(text, 10) == whole.search(text, 10)
    assert sorted(one.name for one in (tmp_path / "parts").iterdir()) == [
        "adds.npy", "keys.npy", "postings.npy", "starts.npy", "texts.npy",
    ]  # fmt: skip


def test_of_equal_scores_the_first_comes_first():
    assert best(np.array([0.0, 2.0, 1.0, 2.0, 1.0]), 3) == [1, 3, 2]
    assert best(np.array([0.0, 0.0]), 3) == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Herons of Ílhavo's cities!", ["heron", "ilhavo", "s", "city"]),
        ("glass bus this analysis", ["glass", "bus", "analysis"]),
        ("東京 tower", ["東", "京", "tower"]),
        ("who is it", []),
        ("\ud83d x_y", ["x", "y"]),
    ],
)
def test_words_are_compared_without_case_accents_and_plurals(text, terms):
    assert [one for one in terms_of(text) if one != "\ud83d"] == terms


@pytest.mark.parametrize("query", ["", "the", "unheard", "\ud83d"])
def test_a_query_without_a_known_word_finds_nothing(tmp_path, query):
    assert built(tmp_path / "i", TEXTS).search(query, 3) == []


def test_an_index_of_nothing_finds_nothing(tmp_path):
    assert built(tmp_path / "i", []).search("heron", 3) == []


def test_it_finds_what_tantivy_finds_first(tmp_path):
    """The peer has another k1 and b; of a text's own rare words both find it first."""
    tantivy = pytest.importorskip("tantivy", reason="the peer tantivy is not installed")
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{n}" for n in rng.zipf(1.3, 40)) for _ in range(300)]
    schema = tantivy.SchemaBuilder().add_text_field("body").add_integer_field("n", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(body=text, n=number))
    writer.commit()
    index.reload()
    searcher, ours = index.searcher(), built(tmp_path / "i", texts)
    same = 0
    for text in texts[:50]:
        query = " ".join(text.split()[:8])
        (_, at), *_ = searcher.search(index.parse_query(query, ["body"]), 1).hits
        same += searcher.doc(at)["n"][0] == ours.search(query, 1)[0]
    assert same >= 45

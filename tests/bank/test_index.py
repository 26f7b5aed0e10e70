"""Search in a matrix: exact, deterministic, and the same through an approximate index."""

import logging
import sys

import numpy as np
import pytest
from bank_worlds import skill
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import SkillIndex
from skillwright.bank.embedding.embedders import unit_rows
from skillwright.bank.retrieve import DECIMALS


def rows(count, seed=0, dimensions=16):
    return unit_rows(np.random.default_rng(seed).standard_normal((count, dimensions)))


def made(count, categories=("heat", "cool", "clean")):
    return [skill(f"t{n:04}", category=categories[n % len(categories)]) for n in range(count)]


def by_hand(skills, vectors, query, category, scope, k, above):
    scores = (vectors.astype(float) @ query.astype(float)).round(DECIMALS)
    fits = [
        (-score, one.id)
        for one, score in zip(skills, scores.tolist(), strict=True)
        if score > above
        and one.scope in ("", scope)
        and (not category or one.category in ("", category))
    ]
    return [(skill_id, -minus) for minus, skill_id in sorted(fits)[:k]]


def found(index, query, category="", scope="", k=6, above=-2.0):
    hits = index.search(query, category=category, scope=scope, k=k, above=above)
    return [(one.id, score) for score, one in hits]


@given(
    st.integers(0, 60),
    st.integers(0, 8),
    st.sampled_from(["", "heat", "cool", "unheard of"]),
    st.sampled_from(["", "household 1"]),
    st.sampled_from([-2.0, 0.0, 0.3]),
    st.integers(0, 1000),
)
def test_a_search_finds_what_sorting_everything_finds(count, k, category, scope, above, seed):
    rng = np.random.default_rng(seed)
    skills = [
        skill(
            f"t{n}",
            category=str(rng.choice(["", "heat", "cool"])),
            scope=str(rng.choice(["", "household 1", "household 2"])),
        )
        for n in range(count)
    ]
    vectors = rows(max(count, 1), seed)[rng.integers(max(count // 2, 1), size=count)]  # ties
    query = rows(1, seed + 1)[0]
    index = SkillIndex(skills, vectors)
    expected = by_hand(skills, vectors, query, category, scope, k, above)
    assert found(index, query, category, scope, k, above) == expected


def test_equal_scores_are_told_by_id_whatever_the_order_they_came_in():
    skills = made(12, ["heat"])
    same = np.repeat(rows(1), 12, axis=0)
    index = SkillIndex(skills[::-1], same)
    assert [one for one, _ in found(index, same[0])] == [f"t{n:04}" for n in range(6)]


def test_a_score_that_equals_the_threshold_does_not_pass():
    skills, query = made(2, ["heat"]), np.array([1.0, 0.0], dtype=np.float32)
    vectors = np.array([[0.6, 0.8], [0.6001, 0.7999]], dtype=np.float32)
    index = SkillIndex(skills, vectors)
    assert found(index, query, above=0.6) == [("t0001", 0.6001)]


def test_rounding_hides_what_the_company_of_a_text_does_to_its_vector():
    skills, vectors, query = made(50), rows(50), rows(1, seed=9)[0]
    noise = np.float32(1e-7) * rows(50, seed=3)
    plain, noisy = SkillIndex(skills, vectors), SkillIndex(skills, vectors + noise)
    assert found(plain, query) == found(noisy, query)


def test_an_index_of_nothing_finds_nothing():
    index = SkillIndex([], np.zeros((0, 0), dtype=np.float32))
    assert len(index) == 0
    assert found(index, rows(1)[0]) == found(index, rows(1)[0], "heat", "household 1") == []


@pytest.fixture(scope="module")
def large():
    skills = made(3000)
    return skills, rows(3000), SkillIndex(skills, rows(3000), approximate_from=2000)


def test_the_approximate_index_finds_nearly_all_that_the_exact_one_finds(large):
    skills, vectors, approximate = large
    exact = SkillIndex(skills, vectors)
    hits = wanted = 0
    for query in rows(100, seed=5):
        truth = set(found(exact, query))
        wanted += len(truth)
        hits += len(truth & set(found(approximate, query)))
    assert hits / wanted >= 0.99


def test_blocks_below_the_bound_are_searched_exactly_beside_a_large_one(large):
    skills, vectors, approximate = large
    exact = SkillIndex(skills, vectors)
    for query in rows(20, seed=6):
        assert found(approximate, query, "heat") == found(exact, query, "heat")


def test_a_new_version_uses_the_old_graph_and_knows_what_came_and_what_went(large):
    skills, vectors, before = large
    query = rows(1, seed=7)[0]
    best = found(before, query)[0][0]
    new = skill("t9999", category="cool", principle="As near as can be.")
    kept = [at for at, one in enumerate(skills) if one.id != best]
    after = SkillIndex(
        [*(skills[at] for at in kept), new],
        np.vstack([vectors[kept], query]),
        approximate_from=2000,
        previous=before,
    )
    (old,), (now,) = before._approximate.values(), after._approximate.values()
    assert now._graph is old._graph
    hits = [one for one, _ in found(after, query)]
    assert hits[0] == "t9999"
    assert best not in hits
    assert hits[1:] == [one for one, _ in found(before, query)[1:]]


def test_a_graph_that_knows_too_little_of_a_bank_is_built_anew(large):
    skills, vectors, before = large
    fresh = [skill(f"u{n}", principle=f"Another {n}.") for n in range(500)]
    after = SkillIndex(
        [*skills, *fresh],
        np.vstack([vectors, rows(500, seed=8)]),
        approximate_from=2000,
        previous=before,
    )
    (old,), (now,) = before._approximate.values(), after._approximate.values()
    assert now._graph is not old._graph


def test_without_usearch_a_large_bank_is_searched_exactly_and_the_log_says_how_to_speed_up(
    monkeypatch, caplog, large
):
    skills, vectors, _ = large
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with caplog.at_level(logging.WARNING):
        index = SkillIndex(skills, vectors, approximate_from=2000)
    assert "pip install 'skillwright[embed]'" in caplog.text
    exact = SkillIndex(skills, vectors)
    for query in rows(20, seed=6):
        assert found(index, query) == found(exact, query)


def test_skills_of_different_categories_may_say_the_same_in_a_large_bank():
    skills = [*made(150), skill("t9999", name="Name of t0005", principle="Principle of t0005.")]
    vectors = rows(150)
    vectors = np.concatenate([vectors, vectors[5:6]])
    index = SkillIndex(skills, vectors, approximate_from=100)
    assert [one for one, _ in found(index, vectors[5], k=2)] == ["t0005", "t9999"]

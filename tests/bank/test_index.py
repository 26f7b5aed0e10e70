"""Search in a matrix: exact and deterministic."""

import numpy as np
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

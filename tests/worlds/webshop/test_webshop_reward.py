"""The reward of a purchase is the original's, in whole numbers."""

import itertools
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz

from skillwright.core import DataError
from skillwright.worlds.webshop import Goal, Grade, Product, grade
from skillwright.worlds.webshop.builtin import KINDS, OPTION_POOLS
from skillwright.worlds.webshop.reward import (
    COLORS,
    are_alike,
    nouns,
    plain_color,
    resolve_tagger,
    share_crumbs,
    title_score,
    token_set_similarity,
)

TEXTS = st.text(alphabet="ab cd", max_size=24)

RUG = Product(
    asin="B000000001",
    title="Ivia Area Rug, Non Slip",
    description="A rug for quiet rooms.",
    bullets=("Stain resistant: stays that way.",),
    prices=(50.0,),
    options={"color": ("navy blue", "red"), "dimensions": ("4x6", "5x8")},
    query="area rug",
    crumbs="Home \u203a Floors \u203a Area Rug",
    attributes=("non slip", "low pile"),
)


def wanting(**changes):
    fields = {
        "key": "B000000001/human/0",
        "asin": "B000000001",
        "category": "home",
        "query": "area rug",
        "name": RUG.title,
        "product_category": RUG.crumbs,
        "instruction_text": "a rug",
        "attributes": ("non slip", "stain resistant"),
        "price_upper": 60.0,
        "goal_options": (("", "blue"), ("", "5x8")),
    }
    return Goal(**{**fields, **changes})


def graded(goal, chosen=None, price=50.0, product=RUG):
    return grade(product, goal, price, chosen or {}, "rule")


def test_every_reward_vector_matches(reference_data):
    rewards = json.loads((reference_data / "skillrl_vectors.json").read_text())["webshop_rewards"]
    for case in rewards["cases"]:
        found = Grade(
            attributes_hit=case["attributes_hit"],
            attributes=case["attributes"],
            options_hit=case["options_hit"],
            options=case["options"],
            price_ok=case["price_ok"],
            title_score=Fraction(str(case["title_score"])),
            query_match=case["query_or_category_match"],
            category_match=False,
        )
        assert float(found.r_type) == case["r_type"], case["name"]
        assert float(found.reward) == case["reward"], case["name"]
        assert found.success is case["success"], case["name"]
        assert found.parts().get("r_option") == case["r_option"], case["name"]


def test_every_category_vector_matches(reference_data):
    rewards = json.loads((reference_data / "skillrl_vectors.json").read_text())["webshop_rewards"]
    for case in rewards["category_match"]:
        assert share_crumbs(case["goal"], case["purchased"]) is case["match"], case


def test_a_right_purchase_is_worth_one():
    found = graded(wanting(), {"color": "navy blue", "dimensions": "5x8"})
    assert found.reward == 1
    assert found.success
    assert found.parts() == {
        "r_type": 1.0,
        "r_att": 1.0,
        "w_att": 0.4,
        "r_option": 1.0,
        "w_option": 0.4,
        "r_price": 1.0,
        "w_price": 0.2,
        "query_match": True,
        "category_match": True,
        "title_score": 1.0,
    }


@pytest.mark.parametrize(
    ("goal", "chosen", "price", "reward"),
    [
        (wanting(), {"color": "navy blue"}, 50.0, Fraction(4, 5)),
        (wanting(), {}, 50.0, Fraction(3, 5)),
        (wanting(), {"color": "navy blue", "dimensions": "5x8"}, 60.01, Fraction(4, 5)),
        (wanting(attributes=("waterproof",)), {"color": "blue"}, 60.0, Fraction(2, 4)),
        (wanting(goal_options=()), {}, 60.0, Fraction(1)),
    ],
)
def test_what_is_missed_costs_its_share(goal, chosen, price, reward):
    assert graded(goal, chosen, price).reward == reward


def test_an_attribute_may_stand_in_title_bullets_or_description_too():
    for attribute in ("area rug", "stain resistant", "quiet rooms", "low pile", "pile low"):
        assert graded(wanting(attributes=(attribute,))).attributes_hit == 1


def test_another_kind_of_thing_is_worth_little_even_if_all_else_fits():
    chosen = {"color": "navy blue", "dimensions": "5x8"}
    elsewhere = {"query": "x", "product_category": "y"}
    assert graded(wanting(name="Lamp"), chosen).reward == 0  # although the query is equal
    one_of_eleven = wanting(name="Rug " + "Lamp " * 10)
    assert graded(one_of_eleven, chosen).reward == Fraction(1, 10)
    one_of_five = wanting(name="Rug Lamp Lamp Lamp Lamp", **elsewhere)
    assert graded(one_of_five, chosen).reward == Fraction(1, 2)
    one_of_four = wanting(name="Rug Lamp Lamp Lamp", **elsewhere)
    assert graded(one_of_four, chosen).reward == 1


def test_a_goal_without_nouns_has_a_title_score_of_a_fifth():
    assert title_score("Area Rug", "new and soft", "rule") == Fraction(1, 5)


def test_the_rule_counts_names_and_not_what_describes_them():
    title = "Velwick Women's New Machine-Washable Rug 5x8, Odor-Resistant, lovely and hand woven"
    assert nouns(title, "rule") == ("velwick", "women", "rug", "hand", "woven")


def test_a_tagger_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"no tagger 'spacey'. Did you mean 'spacy'"):
        resolve_tagger("spacey")
    assert resolve_tagger("rule") == "rule"
    assert resolve_tagger("auto") in {"rule", "spacy"}


@given(TEXTS, TEXTS)
def test_token_sets_are_as_alike_as_rapidfuzz_says(one, other):
    ours = float(token_set_similarity(one, other))
    assert ours == pytest.approx(fuzz.token_set_ratio(one, other), abs=1e-6)
    assert token_set_similarity(one, other) == token_set_similarity(other, one)


def test_case_and_punctuation_do_not_matter_to_the_reward():
    assert are_alike("Non-Slip", "non slip")
    assert not are_alike("non slip", "slip resistant")


def test_alikeness_is_rounded_before_it_is_compared():
    # 85.14 and 85.71 are 85 and 86; only the second is more than 85.
    one, other = "a" * 63 + "b" * 11, "a" * 63 + "c" * 11
    assert token_set_similarity(one, other) == Fraction(12600, 148)
    assert not are_alike(one, other)
    assert are_alike("a" * 6 + "b", "a" * 6 + "c")


def test_accented_latin_letters_are_dropped_before_texts_are_compared():
    assert are_alike("caf\u00e9", "caf")
    assert not are_alike("\u00e9\u00e9", "\u00e9\u00e9")  # nothing is left to compare
    assert are_alike("\u0142\u00f3d\u017a", "\u0142d\u017a")  # characters from 256 on stay
    assert not are_alike("\u0142d\u017a", "dz")


def as_thefuzz_prepares(text):
    kept = "".join(character for character in text if not 128 <= ord(character) < 256)
    return re.sub(r"\W", " ", kept).lower().strip()


@given(*[st.text(alphabet="abcd AB-'_\u00e9\u0142", max_size=24)] * 2)
def test_texts_are_alike_for_the_reward_where_the_originals_score_says_so(one, other):
    prepared = map(as_thefuzz_prepares, (one, other))
    assert are_alike(one, other) == (round(fuzz.token_set_ratio(*prepared)) > 85)


def test_an_option_with_a_name_is_compared_with_its_name():
    def hits(name, value, chosen):
        goal = wanting(goal_options=((name, value),))
        return graded(goal, {"any": chosen}).options_hit

    # People name no option, so that both sides are reduced to a color ...
    assert hits("", "dark green", "light green") == 0
    assert hits("", "blueberry", "blueberry") == 1
    # ... and a name beside the value keeps one side from it, as in the original.
    assert hits("color", "dark green", "light green") == 1
    assert hits("flavor", "blueberry", "blueberry") == 0
    assert hits("color", "navy blue", "navy blue") == 1
    assert hits("blue", "4x6", "navy blue") == 1
    assert hits("size", "large", "x large") == 0
    assert hits("", "large", "x large") == 1


def test_options_of_one_color_are_one():
    assert plain_color("navy blue stripes") == "blue"
    assert plain_color("5x8") == "5x8"
    assert list(COLORS) == sorted(COLORS)


def test_no_two_values_or_attributes_of_the_built_in_shop_are_taken_for_each_other():
    values = [[plain_color(value) for value in pool] for pool in OPTION_POOLS.values()]
    for pool in [*values, *(kind.attributes for kind in KINDS)]:
        for one, other in itertools.combinations(pool, 2):
            assert not are_alike(one, other), (one, other)
            assert one not in other, (one, other)
            assert other not in one, (one, other)

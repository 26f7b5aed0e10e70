"""A goal in anybody's words finds its category; one that is like nothing finds none."""

import json

import pytest

from bank_doors import rooms_bank
from skillwright.bank import Bank, seed_bank
from skillwright.bank.source import Named, classify
from skillwright.core import DataError

HOUSE = seed_bank("alfworld")


@pytest.mark.parametrize(
    ("goal", "category"),
    [
        ("heat the apple", "heat"),
        ("please warm up a potato", "heat"),
        ("make a mug hot and leave it on the table", "heat"),
        ("wash the spoon", "clean"),
        ("rinse a cloth, then put it away", "clean"),
        ("chill the lettuce", "cool"),
        ("get a cold tomato into the microwave", "cool"),
        ("inspect the book by lamp light", "look_at_obj_in_light"),
        ("find two pencils, put them in the drawer", "pick_two"),
        ("bring the keys to the drawer", "pick_and_place"),
    ],
)
@pytest.mark.parametrize("env", ["", "alfworld"])
def test_a_goal_in_free_words_has_the_category_of_the_skills_it_is_like(goal, category, env):
    assert classify(goal, HOUSE, env) == Named(category, "similarity")


@pytest.mark.parametrize("env", ["", "alfworld"])
def test_a_goal_in_an_environments_own_wording_is_named_by_its_rules(env):
    # By words alone a mug would be something to heat.
    assert classify("put a mug in shelf", HOUSE, env) == Named("pick_and_place", "rules")
    assert classify("put a hot egg in fridge", HOUSE, env) == Named("heat", "rules")


def test_every_goal_of_the_published_cases_is_named(reference_data):
    path = reference_data / "skillrl_vectors.json"
    for case in json.loads(path.read_text("utf-8"))["task_typing"]["cases"]:
        assert classify(case["goal"], HOUSE).category == case["expected"]


@pytest.mark.parametrize("goal", ["buy me a red dress", "hello", "", "put some pillows somewhere"])
def test_a_goal_that_is_like_no_skill_has_no_category(goal):
    assert classify(goal, HOUSE, "alfworld") == Named()


def test_rules_name_only_what_the_bank_has_unless_the_environment_is_known():
    assert classify("a red dress", HOUSE) == Named()
    assert classify("a red dress", seed_bank("webshop")) == Named("apparel", "rules")
    assert classify("a red dress", Bank(), "webshop") == Named("apparel", "rules")
    assert classify("heat the apple", Bank()) == Named()


def test_categories_of_ones_own_are_known_by_their_skills():
    assert classify("leave the cellar", rooms_bank()) == Named("cellar", "similarity")


def test_an_unknown_environment_is_named():
    with pytest.raises(DataError, match="no environment 'alfwrld'"):
        classify("heat the apple", HOUSE, "alfwrld")

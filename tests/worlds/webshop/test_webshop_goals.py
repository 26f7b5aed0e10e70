"""Goals, prices and splits come out the same everywhere, and splits share nothing."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError, Task
from skillwright.worlds.webshop import (
    CATEGORIES,
    CatalogueSource,
    WebShopEnv,
    category_of,
    open_catalogue,
    webshop_tasks,
)
from skillwright.worlds.webshop.builtin import built_in_products
from skillwright.worlds.webshop.product import (
    LIMITS,
    NO_LIMIT,
    drawn_price,
    limit_text,
    parse_pricing,
    price_limit,
)

RULE = {"tagger": "rule"}
PRINT = """
from skillwright.worlds.webshop import webshop_tasks
tasks = webshop_tasks("val", 20, env_config={"tagger": "rule"})
print([(task.id, task.description, dict(task.extras)) for task in reversed(tasks)])
"""


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("$9.99", (9.99,)),
        ("$19.99$9.99", (19.99, 9.99)),
        ("$1,299.00$2,000.00", (1299.0, 2000.0)),
        ("", ()),
        ("free", ()),
        (None, ()),
        (5, ()),
    ],
)
def test_prices_are_read_as_they_are_written(text, prices):
    assert parse_pricing(text) == prices


@given(st.floats(0, 2000), st.integers(0, 9), st.text(max_size=10))
def test_a_limit_is_among_the_next_four_tens_but_never_the_first(price, seed, asin):
    limit, above = price_limit(asin, price, seed), [ten for ten in LIMITS if ten > price]
    assert limit == (NO_LIMIT if len(above) < 2 else limit)
    assert len(above) < 2 or limit in above[1:4]
    assert limit_text(limit) == (
        "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"
    )


@given(st.integers(0, 9), st.text(max_size=10))
def test_a_price_of_a_range_lies_in_it_and_depends_on_seed_and_asin_alone(seed, asin):
    price = drawn_price(asin, (10.0, 20.0), seed)
    assert 10 <= price <= 20
    assert price == drawn_price(asin, (10.0, 20.0), seed)
    assert 10 <= drawn_price(asin, (20.0, 10.0), seed) <= 20
    assert drawn_price(asin, (), seed) == 100
    assert drawn_price(asin, (7.5,), seed) == 7.5


def test_another_seed_draws_other_prices():
    draws = {drawn_price("B000000001", (10.0, 20.0), seed) for seed in range(20)}
    assert len(draws) > 15


def test_another_process_lists_the_same_tasks():
    told = subprocess.run(
        [sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    tasks = webshop_tasks("val", env_config=RULE)[:20]
    here = [(task.id, task.description, dict(task.extras)) for task in reversed(tasks)]
    assert told.strip() == str(here)


@pytest.mark.parametrize("goals", ["human", "synthetic"])
@pytest.mark.parametrize("seed", [0, 1])
def test_splits_share_no_goal_and_no_product(goals, seed):
    tasks = {
        split: webshop_tasks(split, seed=seed, goals=goals, env_config=RULE)
        for split in ("train", "val", "test")
    }
    listed = [task.id for split in tasks.values() for task in split]
    assert len(set(listed)) == len(listed)
    products = [{task.extras["goal"][:10] for task in split} for split in tasks.values()]
    assert sum(map(len, products)) == len(set().union(*products))
    assert all(len(split) >= 200 for split in tasks.values())


def test_the_first_tasks_of_a_split_do_not_depend_on_how_many_are_asked_for():
    assert webshop_tasks("train", 5) == webshop_tasks("train", 50)[:5]


def test_another_seed_gives_other_products_and_goals():
    goals = [{task.id for task in webshop_tasks("test", seed=seed)} for seed in (0, 1)]
    assert not goals[0] & goals[1]


def test_the_built_in_shop_has_a_thousand_products_in_seven_categories():
    products = list(built_in_products())
    assert len({product.asin for product in products}) == len(products) == 1000
    assert {product.category for product in products} == set(CATEGORIES)
    assert products == list(built_in_products())
    assert all(product.wishes and product.template for product in products)


def test_every_built_in_goal_is_put_into_the_category_of_its_product():
    catalogue = open_catalogue(CatalogueSource())
    for asin, _ in catalogue.products_with_goals("human"):
        for goal in catalogue.goals_of(asin, "human"):
            assert category_of(goal.instruction_text) == goal.category, goal.instruction_text


def test_a_category_needs_a_whole_word(reference_data):
    vectors = json.loads((reference_data / "skillrl_vectors.json").read_text())
    for case in vectors["task_typing"]["webshop_negatives"]:
        assert category_of(case["goal"]) != case["must_not_be"], case


@pytest.mark.parametrize(
    ("instruction", "category"),
    [
        ("i need a shoe rack for my hallway", "home_decor"),
        ("looking for dress shoes in black", "footwear"),
        ("a red summer dress with pockets, machine washable", "apparel"),
        ("find me a usb cable that works with my watch", "electronics"),
        ("a leather watch band, size 20", "accessories"),
        ("ice cream maker", "other"),
        ("night cream for dry skin", "beauty_health"),
        ("something nice", "other"),
    ],
)
def test_the_thing_comes_last_in_the_first_clause_that_names_one(instruction, category):
    assert category_of(instruction) == category


def test_a_task_is_of_its_type_or_of_what_it_says():
    assert WebShopEnv.category(Task("a", "webshop", task_type="footwear")) == "footwear"
    assert WebShopEnv.category(Task("a", "webshop", description="a wool scarf")) == "accessories"
    assert WebShopEnv.category(Task("a", "webshop")) == ""


def test_synthetic_goals_are_one_for_every_way_to_choose_the_options():
    catalogue = open_catalogue(CatalogueSource())
    asin, count = catalogue.products_with_goals("synthetic")[0]
    product, goals = catalogue.product(asin), list(catalogue.goals_of(asin, "synthetic"))
    assert len({goal.id for goal in goals}) == len(goals) == count
    first = goals[0]
    chosen = ", and ".join(f"{name}: {value}" for name, value in first.goal_options)
    assert [name for name, _ in first.goal_options] == sorted(product.options)
    assert f" with {chosen}, and price lower than " in first.instruction_text
    assert 0 < first.weight < 1
    assert next(catalogue.goals_of(asin, "human")).weight == 1


@pytest.mark.parametrize(
    "key", ["", "B0/human/0", "x/y/z", "/human/", "{asin}/human/99", "{asin}/robot/0", "{asin}"]
)
def test_a_goal_that_is_not_there_is_named(key):
    catalogue = open_catalogue(CatalogueSource())
    asin = catalogue.products_with_goals("human")[0][0]
    with pytest.raises(DataError, match="webshop: catalogue 'built-in' has no"):
        catalogue.goal(key.format(asin=asin))


def test_a_split_or_kind_of_goals_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"no split 'tset'. Did you mean 'test'"):
        webshop_tasks("tset")
    with pytest.raises(DataError, match=r"no goals 'humans'. Did you mean 'human'"):
        webshop_tasks("test", goals="humans")

"""What the seed banks say of their worlds is so: played, not believed."""

from itertools import chain

import pytest

from skillwright.bank import seed_bank
from skillwright.worlds.alfworld import World, generate_problem
from skillwright.worlds.webshop import CatalogueSource, open_catalogue


def world_with(task_type, appliance):
    """A generated game of a task type, its hands empty, with what it asks for and the appliance."""
    for index in range(200):
        problem = generate_problem("train", index)
        world = World(problem)
        places = [place.name for place in problem.receptacles if place.rtype == appliance]
        if problem.task_type == task_type and places:
            return world, places[0]
    raise AssertionError(f"no game of {task_type}")


def thing_with(world, trait):
    return next(one.name for one in world.problem.things if trait in one.traits)


def fetch(world, thing):
    """Go where a thing lies and take it."""
    (place,) = world.places[thing]
    world.act(f"go to {place}")
    world.act(f"open {place}")
    world.act(f"take {thing} from {place}")
    assert world.held == thing


TREATMENTS = [
    ("pick_heat_then_place_in_recep", "microwave", "heat", "heatable", "hot"),
    ("pick_cool_then_place_in_recep", "fridge", "cool", "coolable", "cool"),
    ("pick_clean_then_place_in_recep", "sinkbasin", "clean", "cleanable", "clean"),
]


@pytest.mark.parametrize(("family", "appliance", "verb", "trait", "state"), TREATMENTS)
def test_what_is_in_the_hand_is_treated_whatever_the_door_and_what_lies_inside_is_not(
    family, appliance, verb, trait, state
):
    world, place = world_with(family, appliance)
    thing = thing_with(world, trait)
    fetch(world, thing)
    world.act(f"go to {place}")
    assert place not in world.opened
    command = f"{verb} {thing} with {place}"
    inside = world.copy()
    world.act(command)
    assert state in world.states[thing]

    inside.act(f"open {place}")
    inside.act(f"move {thing} to {place}")
    assert inside.contents[place].count(thing) == 1
    assert command not in inside.admissible()
    inside.act(f"close {place}")
    assert state not in inside.states[thing]  # lying there changes nothing
    inside.act(f"open {place}")
    inside.act(f"take {thing} from {place}")
    inside.act(command)
    assert state in inside.states[thing]


def test_only_the_cool_command_makes_something_lose_its_heat():
    world, microwave = world_with("pick_heat_then_place_in_recep", "microwave")
    fridge = next(one.name for one in world.problem.receptacles if one.rtype == "fridge")
    thing = thing_with(world, "heatable")
    fetch(world, thing)
    for command in (
        f"go to {microwave}",
        f"heat {thing} with {microwave}",
        f"go to {fridge}",
        f"open {fridge}",
        f"move {thing} to {fridge}",
        f"close {fridge}",
        f"open {fridge}",
        f"take {thing} from {fridge}",
    ):
        assert world.act(command) != "Nothing happens."
    assert "hot" in world.states[thing]
    world.act(f"cool {thing} with {fridge}")
    assert "hot" not in world.states[thing]


def test_a_hand_holds_one_thing():
    world, _ = world_with("pick_heat_then_place_in_recep", "microwave")
    fetch(world, thing_with(world, "heatable"))
    everywhere = chain.from_iterable(_offered_at(world, one) for one in world.problem.receptacles)
    assert not [command for command in everywhere if command.startswith("take ")]


def _offered_at(world, place):
    there = world.copy()
    there.act(f"go to {place.name}")
    there.act(f"open {place.name}")
    return there.admissible()


def test_the_price_of_the_shop_hangs_on_the_product_and_no_skill_says_that_options_change_it():
    catalogue = open_catalogue(CatalogueSource())
    names = [name for name, _ in catalogue.products_with_goals("synthetic")]
    ranges = [one for one in map(catalogue.product, names) if len(one.prices) == 2]
    assert ranges
    for product in ranges:  # what is paid lies anywhere in it: only the higher end is safe
        assert product.prices[0] <= catalogue.price(product) <= product.prices[1]
    said = [one.principle for one in seed_bank("webshop").skills if "price" in one.principle]
    assert any("higher end" in text for text in said)
    assert not [text for text in said if "your options cost" in text or "chosen options" in text]

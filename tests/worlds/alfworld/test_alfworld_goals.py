"""Goals: the six task types, their PDDL, and a fast test that agrees with a naive one."""

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.worlds.alfworld import TASK_TYPES, World, task_type_goal
from skillwright.worlds.alfworld.layout import compile_goal
from skillwright.worlds.alfworld.pddl import Misread, parse_goal, read
from skillwright.worlds.alfworld.problem import describe_goal

ROOM = {
    "apple 2": "countertop 1",
    "apple 1": "cabinet 3",
    "desklamp 1": "desk 1",
    "pen 1": "desk 1",
}
FAMILY_GOALS = [task_type_goal(kind, "apple", "cabinet", "desklamp") for kind in TASK_TYPES]


def naive(goal, world: World, values: dict[str, str]) -> bool:
    """The textbook meaning of a goal: try every combination."""
    match goal:
        case ("and", *parts):
            return all(naive(part, world, values) for part in parts)
        case ("not", part):
            return not naive(part, world, values)
        case ("exists", variables, body):
            names = [name for name, _ in variables]
            ranges = [domain(world, kind) for _, kind in variables]
            return any(
                naive(body, world, values | dict(zip(names, choice, strict=True)))
                for choice in product(*ranges)
            )
        case ("=", one, other):
            return values.get(one, one) == values.get(other, other)
        case ("atom", predicate, *terms):
            return fact(predicate, [values.get(term, term) for term in terms], world)
    raise AssertionError(goal)


def domain(world: World, kind: str) -> list[str]:
    problem = world.problem
    return {
        "agent": ["agent"],
        "location": [problem.start, *(place.location for place in problem.receptacles)],
        "receptacle": [place.name for place in problem.receptacles],
        "object": [thing.name for thing in problem.things],
    }[kind]


def fact(predicate: str, terms: list[str], world: World) -> bool:
    things = {thing.name: thing for thing in world.problem.things}
    places = {place.name: place for place in world.problem.receptacles}
    first, last = terms[0], terms[-1]
    match predicate:
        case "inreceptacle":
            return first in world.contents.get(last, ())
        case "objecttype":
            return things[first].otype == last
        case "receptacletype":
            return places[first].rtype == last
        case "receptacleatlocation":
            return places[first].location == last
        case "objectatlocation":
            return last in world.whereabouts[first]
        case "atlocation":
            return last == world.location
        case "holds":
            return last == world.held
        case "openable":
            return places[first].openable
        case "opened":
            return first in world.opened
        case _ if predicate.startswith("is"):
            return predicate.removeprefix("is") in world.states[first]
        case _:
            return predicate in things[first].traits


def wander(world: World, rng: random.Random, steps: int) -> World:
    for _ in range(steps):
        # Going somewhere is two thirds of all commands; the others deserve their turn.
        doing = [command for command in world.admissible() if not command.startswith("go to")]
        world.act(rng.choice(rng.choice([doing, world.admissible()])))
    return world


def somewhere(make_problem, rng: random.Random) -> World:
    """A household where winning is likely: apples in cabinets, treated, in hand, under a lamp."""
    names = ("apple 2", "apple 1", "desklamp 1", "pen 1")
    where = {name: rng.choice(("cabinet 3", "cabinet 1", "desk 1")) for name in names}
    states = {
        name: rng.choice((set(), {"clean", "hot"}, {"clean", "cool"}))
        for name in ("apple 2", "apple 1")
    }
    held = rng.choice(("", "apple 1"))
    states["desklamp 1"] = {"toggled"}
    start = rng.choice(("by the counter", "by the sink", "by the desk"))
    if held:
        where[held] = ""
    return World(make_problem(where, states=states, held=held, start=start))


@given(rng=st.randoms(use_true_random=False), steps=st.integers(0, 5))
def test_the_fast_test_of_a_family_agrees_with_trying_every_combination(make_problem, rng, steps):
    world = wander(somewhere(make_problem, rng), rng, steps)
    for goal in FAMILY_GOALS:
        assert compile_goal(goal, world.problem)(world) == naive(goal, world, {})


UNARY = {
    "object": "pickupable cleanable heatable toggleable isclean ishot iscool issliced istoggled",
    "receptacle": "openable opened",
}
BINARY = {
    ("object", "receptacle"): ["inreceptacle"],
    ("receptacle", "location"): ["receptacleatlocation"],
    ("object", "location"): ["objectatlocation"],
    ("agent", "location"): ["atlocation"],
    ("agent", "object"): ["holds"],
}


def random_goal(rng: random.Random, scope: dict[str, str], depth: int):
    """Any goal whose variables make sense; ``scope`` maps variables to kinds."""
    form = rng.choice(["and", "not", "exists", "exists", "atom", "atom"] if depth else ["atom"])
    if form == "and":
        return ("and", *(random_goal(rng, scope, depth - 1) for _ in range(rng.randint(1, 3))))
    if form == "not":
        return ("not", random_goal(rng, scope, depth - 1))
    if form == "exists":
        names = rng.sample(["?a", "?b", "?c"], rng.randint(1, 2))
        fresh = {name: rng.choice(["agent", "location", "receptacle", "object"]) for name in names}
        return ("exists", tuple(fresh.items()), random_goal(rng, scope | fresh, depth - 1))
    return random_atom(rng, scope)


def random_atom(rng: random.Random, scope: dict[str, str]):
    pairs = list(product(scope, scope))
    atoms = [("=", one, other) for one, other in pairs if scope[one] == scope[other]]
    for one, other in pairs:
        for predicate in BINARY.get((scope[one], scope[other]), ()):
            atoms.append(("atom", predicate, one, other))
    for name, kind in scope.items():
        atoms += [("atom", predicate, name) for predicate in UNARY.get(kind, "").split()]
    return rng.choice(atoms) if atoms else ("=", "x", "y")


@given(rng=st.randoms(use_true_random=False), steps=st.integers(0, 20))
def test_the_fast_test_of_any_goal_agrees_with_trying_every_combination(make_problem, rng, steps):
    where = {"apple 1": "cabinet 3", "knife 1": "countertop 1", "desklamp 1": "desk 1"}
    problem = make_problem(where)
    small = [problem.receptacles[index] for index in (0, 3, 5)]
    world = wander(World(make_problem(where, receptacles=tuple(small))), rng, steps)
    goal = random_goal(rng, {}, depth=4)
    assert compile_goal(goal, world.problem)(world) == naive(goal, world, {})


def test_a_goal_can_name_things_themselves(make_problem):
    world = World(make_problem(ROOM))
    there = compile_goal(("atom", "inreceptacle", "apple 2", "countertop 1"), world.problem)
    elsewhere = compile_goal(("atom", "inreceptacle", "apple 2", "desk 1"), world.problem)
    assert there(world)
    assert not elsewhere(world)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_family_goal_is_recognized_as_what_it_is(task_type):
    found, params = describe_goal(task_type_goal(task_type, "apple", "fridge", "desklamp"))
    assert found == task_type
    look = {"object": "apple", "toggle": "desklamp"}
    assert params == (look if "look" in task_type else {"object": "apple", "target": "fridge"})


def test_the_official_goal_of_pick_two_is_recognized_although_it_repeats_itself():
    form = read(
        "(and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 AppleType)"
        " (receptacleType ?r FridgeType) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and"
        " (not (= ?o1 ?o2)) (objectType ?o2 AppleType) (receptacleType ?r FridgeType)"
        " (inReceptacle ?o2 ?r)))))))"
    )
    goal = parse_goal(form, {"appletype": "apple", "fridgetype": "fridge"})
    assert describe_goal(goal) == (
        "pick_two_obj_and_place",
        {"object": "apple", "target": "fridge"},
    )


def test_a_goal_of_no_family_is_not_taken_for_one():
    assert describe_goal(("atom", "opened", "fridge 1")) == ("", {})


def test_an_unknown_family_is_refused_with_the_nearest_one():
    with pytest.raises(DataError, match="Did you mean 'pick_two_obj_and_place'"):
        task_type_goal("pick_two_obj_and_plaec", "apple", "fridge")


def test_a_pddl_goal_becomes_the_goal_of_its_family():
    form = read(
        "(exists (?r - receptacle ?o - object) (and (heatable ?o) (isHot ?o) (inReceptacle ?o ?r)"
        " (objectType ?o AppleType) (receptacleType ?r FridgeType)))"
    )
    names = {"appletype": "apple", "fridgetype": "fridge"}
    assert parse_goal(form, names) == task_type_goal(
        "pick_heat_then_place_in_recep", "apple", "fridge"
    )


def test_a_pddl_goal_may_nest_quantifiers_and_give_one_kind_to_several_variables():
    form = read("(exists (?r - receptacle) (exists (?a ?b - object) (not (= ?a ?b))))")
    pair = ("exists", (("?a", "object"), ("?b", "object")), ("not", ("=", "?a", "?b")))
    assert parse_goal(form, {}) == ("exists", (("?r", "receptacle"),), pair)


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("(and (isHott ?o))", "Did you mean 'ishot'", 3),
        ("(inReceptacle ?o)", "needs 2 names in a goal, not 1", 0),
        ("(isHot (?o))", "needs names, not another list", 2),
        ("(isHot ?o)", "'?o', which nothing introduces", 2),
        ("(exists (?o - object) (inReceptacle ?o cup))", "'cup', which nothing introduces", 10),
        ("(exists (?o - objekt) (isHot ?o))", "Did you mean 'object'", 5),
        ("(exists (?o) (isHot ?o))", "'?o' has no kind", 2),
        ("(and ())", "expected a goal", 2),
    ],
)
def test_a_malformed_pddl_goal_is_refused_where_it_is_wrong(text, message, at):
    with pytest.raises(Misread) as caught:
        parse_goal(read(text), {})
    assert message in caught.value.message
    assert caught.value.at == at


@pytest.mark.parametrize("goal", [("or", ("=", "x", "x")), ("atom", "ishot"), "won", ()])
def test_what_is_no_goal_cannot_be_compiled(make_problem, goal):
    with pytest.raises(DataError, match="no goal expression"):
        compile_goal(goal, make_problem(ROOM))


def test_a_variable_must_be_introduced(make_problem):
    with pytest.raises(DataError, match="'\\?o' outside the 'exists'"):
        compile_goal(("atom", "ishot", "?o"), make_problem(ROOM))

"""Our houses in the official engine: every text, every list of commands and every win is the same.

`make oracle` runs this; the packages of the extra ``oracle`` are too heavy for everyday tests.
"""

import random
from collections import defaultdict
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import pytest

from skillwright.worlds.alfworld import World, generate_problem

# The official packages warn in many ways, and here warnings would be errors.
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

# In a row of 24 games each task type is set in each of its rooms.
HOUSES = [(("train", "val", "test")[index // 6 % 3], index, None) for index in range(24)]
HOMES = [("test", index, 7) for index in range(6)]

CLUMSY = ("", "Look", "look around", "go to", "go to moon 1", "take", "use desklamp", "\tlook  ")


class Moment(NamedTuple):
    """What a player knows."""

    observation: str
    admissible: list[str]
    won: bool


def ours(world, observation):
    return Moment(observation, world.admissible(), world.solved)


def theirs(state):
    return Moment(state["feedback"], state["admissible_commands"], state["won"])


def open_both(engine, problem):
    world = World(problem)
    assert theirs(engine.reset()) == ours(world, world.intro())
    return world


def play_both(engine, world, commands):
    for count, command in enumerate(commands):
        state, score, done = engine.step(command)
        assert theirs(state) == ours(world, world.act(command)), f"command {count}: {command!r}"
        assert (score, done) == (int(world.solved), world.solved)


def random_commands(world, rng):
    """Draw a kind of command and then one of the kind, or else one that is useless now.

    Drawn from the whole list alike, nearly all would be ``go to``. Commands of one word are of one
    kind, because they change nothing.
    """
    stale = []
    while True:
        kinds = defaultdict(list)
        for command in world.admissible():
            verb, _, rest = command.partition(" ")
            kinds[verb if rest else "idle"].append(command)
        kinds["clumsy"] = [*CLUMSY, *stale]
        kind = rng.choice(list(kinds))
        stale.append(rng.choice(world.admissible()))
        yield rng.choice(kinds[kind])


def crowded(problem, rng):
    """Rearrange a house into what official rooms may have and ours do not.

    Receptacles share locations, and the agent starts among them, knife in hand where there is one.
    Objects lie anywhere, lamps in cupboards too. Some doors are open, some are missing; some
    objects have already been treated, and some hold others.
    """
    spots = [f"loc {number}" for number in range(1, 2 + len(problem.receptacles) // 3)]
    pieces = tuple(
        replace(
            piece,
            location=rng.choice(spots),
            openable=piece.openable and rng.random() < 0.8,
            opened=piece.openable and rng.random() < 0.3,
        )
        for piece in problem.receptacles
    )
    names = [thing.name for thing in problem.things]
    held = next((name for name in names if name.startswith(("knife", "butterknife"))), "")
    things = tuple(rearranged(thing, held, pieces, names, rng) for thing in problem.things)
    changes = {"receptacles": pieces, "things": things, "held": held}
    start = rng.choice(pieces).location
    return replace(problem, **changes, start=start, walkthrough=())  # it need not win any more


def rearranged(thing, held, pieces, names, rng):
    piece = rng.choice(pieces)
    states = {state for state in ("clean", "sliced") if rng.random() < 0.2}
    states |= {rng.choice(("hot", "cool"))} if rng.random() < 0.3 else set()
    others = [name for name in names if name != thing.name and rng.random() < 0.1]
    return replace(
        thing,
        receptacles=() if thing.name == held else (piece.name,),
        locations=frozenset(() if thing.name == held else {piece.location}),
        inner=tuple(others) if "receptacle" in thing.traits else (),
        states=frozenset(states),
    )


@pytest.mark.parametrize(("split", "index", "household"), [*HOUSES, *HOMES])
def test_a_house_plays_as_in_the_official_engine(open_game, split, index, household):
    problem = generate_problem(split, index, household=household)
    engine, rng = open_game(problem), random.Random(index)
    world = open_both(engine, problem)
    play_both(engine, world, problem.walkthrough)
    assert world.solved
    play_both(engine, world, islice(random_commands(world, rng), 10))  # a win is no end here
    world = open_both(engine, problem)
    play_both(engine, world, islice(random_commands(world, rng), 50))


@pytest.mark.parametrize("index", range(12))
def test_a_crowded_house_plays_as_in_the_official_engine(open_game, index):
    rng = random.Random(index)
    problem = crowded(generate_problem("train", index), rng)
    engine = open_game(problem)
    world = open_both(engine, problem)
    play_both(engine, world, islice(random_commands(world, rng), 60))

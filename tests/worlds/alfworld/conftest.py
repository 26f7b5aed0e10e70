"""A small household that the ALFWorld tests furnish as they need."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skillwright.worlds.alfworld import Problem, Receptacle, Thing, task_type_goal

TRAITS = {
    "apple": {"pickupable", "cleanable", "heatable", "coolable", "sliceable"},
    "mug": {"pickupable", "cleanable", "heatable", "coolable", "receptacle"},
    "egg": {"pickupable", "cleanable", "heatable", "coolable"},
    "knife": {"pickupable", "cleanable"},
    "butterknife": {"pickupable", "cleanable"},
    "pen": {"pickupable"},
    "desklamp": {"toggleable"},
}

# Cabinets 3 and 2 share a location with the countertop; cabinet 1 has no door.
PLACES = (
    ("cabinet 3", "by the counter", True),
    ("cabinet 2", "by the counter", True),
    ("cabinet 1", "by the sink", False),
    ("countertop 1", "by the counter", False),
    ("bathtubbasin 1", "by the bathtub", False),
    ("desk 1", "by the desk", False),
    ("fridge 1", "by the fridge", True),
    ("microwave 1", "by the microwave", True),
    ("sinkbasin 1", "by the sink", False),
)
LOCATION = {name: location for name, location, _ in PLACES}

PDDL = """\
(define (problem tea)
(:domain household) ; comments are (skipped
(:objects
agent1 - agent
loc_bar_1 loc_bar_2 - location
Fridge_bar_01 - receptacle
Shelf_bar_01 - receptacle
Apple_bar_01 - object
FridgeType ShelfType - rtype
AppleType - otype
)
(:init
(= (total-cost) 0)
(atLocation agent1 loc_bar_1)
(receptacleAtLocation Fridge_bar_01 loc_bar_2)
(receptacleAtLocation Shelf_bar_01 loc_bar_1)
(receptacleType Fridge_bar_01 FridgeType)
(receptacleType Shelf_bar_01 ShelfType)
(openable Fridge_bar_01)
(canContain FridgeType AppleType)
(objectType Apple_bar_01 AppleType)
(pickupable Apple_bar_01)
(inReceptacle Apple_bar_01 Shelf_bar_01)
(objectAtLocation Apple_bar_01 loc_bar_1)
)
(:goal (exists (?r - receptacle ?o - object)
(and (inReceptacle ?o ?r) (objectType ?o AppleType) (receptacleType ?r FridgeType))))
(:metric minimize (total-cost))
)
"""
WINNING_COMMANDS = (
    "take apple 1 from shelf 1",
    "go to fridge 1",
    "open fridge 1",
    "move apple 1 to fridge 1",
)


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    """Furnish the household: ``make_problem({"apple 1": "countertop 1"}, ...)``."""

    def make(where: dict[str, str], **fields) -> Problem:
        inner = fields.pop("inner", {})
        states = fields.pop("states", {})
        things = [
            Thing(
                name=name,
                sort_key=name,
                otype=name.split()[0],
                receptacles=(place,) if place else (),
                locations=frozenset({LOCATION[place]} if place else ()),
                inner=inner.get(name, ()),
                traits=frozenset(TRAITS[name.split()[0]]),
                states=frozenset(states.get(name, ())),
            )
            for name, place in where.items()
        ]
        receptacles = [
            Receptacle(name, f"{rank}", name.split()[0], location, openable)
            for rank, (name, location, openable) in enumerate(PLACES)
        ]
        holdable = frozenset(TRAITS) - {"desklamp"}
        defaults = {
            "receptacles": tuple(receptacles),
            "things": tuple(things),
            "start": "by the door",
            "can_contain": {receptacle.rtype: holdable for receptacle in receptacles},
            "goal": task_type_goal("pick_and_place_simple", "apple", "fridge"),
            "goal_text": "put a apple in fridge",
        }
        return Problem(**{**defaults, **fields})

    return make


@pytest.fixture(scope="session")
def pddl() -> str:
    """A tiny problem text: an apple on a shelf, to be put into the fridge."""
    return PDDL


@pytest.fixture
def write_game(tmp_path: Path) -> Callable[..., Path]:
    """Write a game file; keyword arguments replace keys, ``None`` as a problem leaves it out."""

    def write(folder: str = ".", **keys) -> Path:
        path = tmp_path / folder / "game.tw-pddl"
        path.parent.mkdir(parents=True, exist_ok=True)
        grammar = '"task": [{"rhs": "Your task is to: put a apple in fridge."}] move {o} to {r}'
        game = {
            "pddl_domain": "",
            "grammar": grammar,
            "pddl_problem": PDDL,
            "solvable": True,
            "walkthrough": list(WINNING_COMMANDS),
        }
        path.write_text(json.dumps({**game, **keys}), encoding="utf-8")
        return path

    return write

"""How fast the household is: a step, a reset and the loading of a game.

Three rooms of 12, 22 and 38 receptacles are written as game files and played with 60 random
admissible commands each; reference games join in where they are ($SKILLWRIGHT_REFERENCE_DATA).
A step is one command, the new list of admissible commands and the question whether the game is
solved. A reset builds a world from a parsed game and its first text and list. Loading reads the
file.

    .venv/bin/python benchmarks/alfworld.py

The targets are in pieces of plain work that is timed beside every reading; the slowest of the
generated rooms decides. Microseconds and milliseconds are printed for the reader.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import process_time

from measuring import Kind, at_most, compared, cpu_s, report
from skillwright.worlds.alfworld import Problem, World, load_game

ROOMS = ((12, 7), (22, 23), (38, 30))
STEPS = 60
REPEATS, PLAYS = 30, 5
TARGETS = {"step": 0.0165, "reset": 0.45, "load": 6.8}
"""In pieces of plain work."""

APPLIANCES = ("Fridge", "Microwave", "Sink")
FURNITURE = ("Cabinet", "Drawer", "CounterTop", "Cabinet", "Drawer", "Shelf", "DiningTable")
OBJECTS = ("Apple", "Mug", "Knife", "Egg", "Plate", "SaltShaker", "Bread", "Spoon", "Pan", "Cup")
DOORS = {"Fridge", "Microwave", "Cabinet", "Drawer"}
GRAMMAR = '"rhs": "Your task is to: heat some apple and put it in fridge." "move {o} to {r}"'
GOAL = (
    "(exists (?r - receptacle ?o - object) (and (heatable ?o) (isHot ?o) (inReceptacle ?o ?r)"
    " (objectType ?o AppleType) (receptacleType ?r FridgeType)))"
)


def problem_text(receptacles: int, objects: int) -> str:
    """Write a kitchen with as many receptacles, a location each, and as many objects."""
    classes = [*APPLIANCES, *islice(cycle(FURNITURE), receptacles - len(APPLIANCES))]
    places = [
        f"{name}_bar_{i:02}" + ("_bar_SinkBasin" if name == "Sink" else "")
        for i, name in enumerate(classes)
    ]
    things = [f"{name}_bar_{i:02}" for i, name in enumerate(islice(cycle(OBJECTS), objects))]
    rtypes = {"Sink": "SinkBasinType"}
    declared = [f"{place} - receptacle" for place in places]
    declared += [f"{thing} - object" for thing in things]
    declared += [f"loc_bar_{i} - location" for i in range(receptacles + 1)]
    declared += [f"{name} - rtype" for name in sorted({rtypes.get(c, f"{c}Type") for c in classes})]
    declared += [f"{name}Type - otype" for name in OBJECTS]
    facts = [f"(atLocation agent1 loc_bar_{receptacles})"]
    for i, (place, name) in enumerate(zip(places, classes, strict=True)):
        rtype = rtypes.get(name, f"{name}Type")
        facts += [
            f"(receptacleAtLocation {place} loc_bar_{i})",
            f"(receptacleType {place} {rtype})",
        ]
        facts += [f"(openable {place})"] if name in DOORS else []
        facts += [f"(canContain {rtype} {otype}Type)" for otype in OBJECTS]
    for i, thing in enumerate(things):
        at = i * 5 % receptacles
        facts += [
            f"(inReceptacle {thing} {places[at]})",
            f"(objectAtLocation {thing} loc_bar_{at})",
        ]
        facts += [f"(objectType {thing} {thing.partition('_')[0]}Type)"]
        facts += [f"({trait} {thing})" for trait in ("pickupable", "heatable", "cleanable")]
    lines = ["(define (problem room) (:domain alfred)", "(:objects agent1 - agent", *declared, ")"]
    return "\n".join([*lines, "(:init", *facts, ")", f"(:goal {GOAL}))"])


def write_rooms(folder: Path) -> list[Path]:
    """Write the three rooms as game files."""
    paths = []
    for receptacles, objects in ROOMS:
        path = folder / f"room_{receptacles}_{objects}.tw-pddl"
        game = {"grammar": GRAMMAR, "pddl_problem": problem_text(receptacles, objects)}
        path.write_text(json.dumps(game), encoding="utf-8")
        paths.append(path)
    return paths


def reference_games() -> list[Path]:
    """Find the reference games, if there are any."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("SKILLWRIGHT_REFERENCE_DATA", beside))
    return sorted((root / "alfworld" / "games").glob("*.tw-pddl"))


def reset(problem: Problem) -> list[str]:
    """Open a game: a world, its first text, and what can be done."""
    world = World(problem)
    world.intro()
    return world.admissible()


def seconds_per_step(problem: Problem, seed: int) -> float:
    """Play random admissible commands; choosing them is not timed."""
    world, rng, spent = World(problem), random.Random(seed), 0.0
    for _ in range(STEPS):
        command = rng.choice(world.admissible())
        start = process_time()
        world.act(command)
        world.admissible()
        _ = world.solved
        spent += process_time() - start
    return spent / STEPS


class Clock:
    """Does a piece of work and remembers its seconds."""

    def __init__(self, work: Callable[[], float]) -> None:
        self._work = work
        self.seconds: list[float] = []

    def __call__(self) -> float:
        """Do it once."""
        self.seconds.append(self._work())
        return self.seconds[-1]


def measure(path: Path) -> dict[str, tuple[list[float], float]]:
    """Return, for every figure of one game, the readings in plain work and the median seconds."""
    problem, seeds = load_game(path), iter(range(REPEATS * PLAYS))
    works = {
        "step": Clock(lambda: median(seconds_per_step(problem, next(seeds)) for _ in range(PLAYS))),
        "reset": Clock(lambda: cpu_s(lambda: reset(problem))),
        "load": Clock(lambda: cpu_s(lambda: load_game(path))),
    }
    found = {}
    for name, work in works.items():
        ratios = compared(work, REPEATS)
        found[name] = (ratios, median(work.seconds))
    return found


def main() -> int:
    """Measure all games, print a line for each, and the checks."""
    with tempfile.TemporaryDirectory() as folder:
        rooms = write_rooms(Path(folder))
        found = {path: measure(path) for path in [*rooms, *reference_games()]}
    for path, figures in found.items():
        shown = "  ".join(
            f"{name} {1e3 * spent:7.4f} ms, {median(ratios):.4f} of plain work;"
            for name, (ratios, spent) in figures.items()
        )
        print(f"{path.stem:40} {shown}")
    # The rooms decide: they are the same everywhere, and the reference games are not.
    worst = {name: max((found[room][name] for room in rooms), key=_middle) for name in TARGETS}
    checks = [
        at_most(f"{name} in the slowest room", Kind.PLAIN, worst[name][0], target)
        for name, target in TARGETS.items()
    ]
    shown_ms = {name: round(1e3 * spent, 4) for name, (_, spent) in worst.items()}
    return report(checks, games=len(found), ms=shown_ms)


def _middle(found: tuple[list[float], float]) -> float:
    return median(found[0])


if __name__ == "__main__":
    sys.exit(main())

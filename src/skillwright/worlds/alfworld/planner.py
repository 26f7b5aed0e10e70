"""A planner with full information: the shortest solution, by a fixed recipe per task type.

It proves that generated games can be solved, and gives demonstrations from any state of a game.
Source: the rule-based experts of ALFWorld (arXiv:2010.03768) follow the same recipes.
"""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Final, NamedTuple

from skillwright.core import DataError, did_you_mean
from skillwright.worlds.alfworld.problem import Problem, Receptacle, Thing
from skillwright.worlds.alfworld.state import World, move_command
from skillwright.worlds.alfworld.tables import ALL_TASK_TYPES, LOOK, PICK_TWO

_TASK_TYPES: Final = {one.name: one for one in ALL_TASK_TYPES}

# Verb of a task type -> the state that it gives an object.
_STATES: Final = {"clean": "clean", "heat": "hot", "cool": "cool"}


class _Find(NamedTuple):
    """An object and where to take it from; no place if it is in hand."""

    thing: Thing
    place: Receptacle | None


def plan(game: Problem | World) -> list[str]:
    """Return the commands that solve a game from its current state.

    Args:
        game: A game, or a world in any state, which is not changed. The game's ``task_type`` and
            ``params`` describe the task.

    Returns:
        The commands in order; empty if the game is solved already, or no recipe solves it.

    Raises:
        DataError: The task type is not one of the six.
    """
    world = game if isinstance(game, World) else World(game)
    task_type = world.problem.task_type
    if task_type not in _RECIPES:
        raise DataError(f"no recipe for {task_type!r}. {did_you_mean(task_type, _RECIPES)}")
    if world.solved:
        return []
    routes = sorted((route.commands for route in _RECIPES[task_type](world)), key=len)
    return next((commands for commands in routes if _wins(world, commands)), [])


def _wins(world: World, commands: list[str]) -> bool:
    trial = world.copy()
    for command in commands:
        trial.act(command)
    return trial.solved


class _Route:
    """Commands so far, with their effects on the world."""

    def __init__(self, world: World) -> None:
        self.commands: list[str] = []
        self._problem = world.problem
        self._held = world.held
        self._location = world.location
        self._opened = set(world.opened)

    def visit(self, place: Receptacle) -> None:
        """Go to a receptacle."""
        if self._location != place.location:
            self.commands.append(f"go to {place.name}")
            self._location = place.location

    def reach(self, place: Receptacle) -> None:
        """Go to a receptacle, and open its door if it is closed."""
        self.visit(place)
        if self._is_closed(place):
            self.commands.append(f"open {place.name}")
            self._opened.add(place.name)

    def fetch(self, find: _Find) -> None:
        """Take an object, after putting down the one in hand."""
        if find.place is None:
            return
        self._free_hand()
        self.reach(find.place)
        self.commands.append(f"take {find.thing.name} from {find.place.name}")
        self._held = find.thing.name

    def put(self, place: Receptacle) -> None:
        """Put the object in hand into a receptacle."""
        self.reach(place)
        self.commands.append(move_command(self._held, place.name, self._problem.dialect))
        self._held = ""

    def treat(self, verb: str, appliance: Receptacle) -> None:
        """Clean, heat or cool the object in hand; the appliance's door does not matter."""
        self.visit(appliance)
        self.commands.append(f"{verb} {self._held} with {appliance.name}")

    def use(self, lamp: Thing) -> None:
        """Switch a lamp on."""
        self.commands.append(f"use {lamp.name}")

    def _is_closed(self, place: Receptacle) -> bool:
        return place.openable and place.name not in self._opened

    def _free_hand(self) -> None:
        if not self._held:
            return
        otype = next(thing.otype for thing in self._problem.things if thing.name == self._held)
        takers = _takers(self._problem, otype)
        if takers:
            self.put(min(takers, key=lambda p: (p.location != self._location, self._is_closed(p))))


def _treated_and_put(world: World) -> Iterator[_Route]:
    task_type = _TASK_TYPES[world.problem.task_type]
    appliances = [p for p in world.problem.receptacles if p.rtype == task_type.appliance]
    finds = _finds(world, "object", task_type.trait or "pickupable")
    for find, target in product(finds, _targets(world.problem)):
        done = _STATES.get(task_type.verb) in {None, *world.states[find.thing.name]}
        for appliance in [None] if done else appliances:
            route = _Route(world)
            route.fetch(find)
            if appliance is not None:
                route.treat(task_type.verb, appliance)
            route.put(target)
            yield route


def _two_of_them(world: World) -> Iterator[_Route]:
    pairs = permutations(_finds(world, "object", "pickupable"), 2)
    for target, (first, second) in product(_targets(world.problem), pairs):
        # In the other order, the object in hand would be put down and taken up again.
        if first.thing == second.thing or second.place is None:
            continue
        route = _Route(world)
        for find in (first, second):
            if find.place != target:
                route.fetch(find)
                route.put(target)
        yield route


def _under_the_lamp(world: World) -> Iterator[_Route]:
    lamps = _finds(world, "toggle", "toggleable")
    for find, lamp in product(_finds(world, "object", "pickupable"), lamps):
        if lamp.place is None:
            continue
        route = _Route(world)
        route.fetch(find)
        route.visit(lamp.place)
        if "toggled" not in world.states[lamp.thing.name]:
            route.use(lamp.thing)
        yield route


_RECIPES: Final = {
    **dict.fromkeys(_TASK_TYPES, _treated_and_put),
    LOOK: _under_the_lamp,
    PICK_TWO: _two_of_them,
}


def _finds(world: World, role: str, trait: str) -> list[_Find]:
    """List the objects that fit a role (``object`` or ``toggle``), wherever they are."""
    finds = []
    for thing in world.problem.things:
        if thing.otype == world.problem.params.get(role) and trait in thing.traits:
            if thing.name == world.held:
                finds.append(_Find(thing, None))
            places = world.places[thing.name]
            finds += [_Find(thing, p) for p in world.problem.receptacles if p.name in places]
    return finds


def _targets(problem: Problem) -> list[Receptacle]:
    takers = _takers(problem, problem.params.get("object", ""))
    return [place for place in takers if place.rtype == problem.params.get("target")]


def _takers(problem: Problem, otype: str) -> list[Receptacle]:
    return [p for p in problem.receptacles if otype in problem.can_contain.get(p.rtype, ())]

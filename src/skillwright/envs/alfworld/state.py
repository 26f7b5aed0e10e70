"""The household as a state machine: what can be done, and what it changes.

Source: ALFWorld's text engine (alfworld/alfworld 0.4 on TextWorld), whose observations and lists
of admissible commands this reproduces byte for byte, odd cases included. The oddest:

- heating, cooling and cleaning ask only for the object in hand and the appliance nearby; doors do
  not matter to them, nor to switching a lamp on, nor to slicing;
- several receptacles may share a location, and then all of them are in reach;
- a win is a statement about the present: undo the goal, and the game is no longer won.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Self

from skillwright.envs.alfworld import texts
from skillwright.envs.alfworld.layout import Layout
from skillwright.envs.alfworld.problem import Problem, Receptacle

# A verb, an object and a receptacle (or a second object); "" where there is none.
Action = tuple[str, str, str]

# Class of appliance -> (verb, trait that it asks for).
_APPLIANCES: Final = {
    "sinkbasin": ("clean", "cleanable"),
    "microwave": ("heat", "heatable"),
    "fridge": ("cool", "coolable"),
}
_KNIVES: Final = frozenset({"knife", "butterknife"})
_GO: Final = "go to "


class World:
    """One game in progress. Everything below is for reading; only `act` changes it.

    Args:
        problem: The game.

    Raises:
        DataError: The problem contradicts itself (see `Layout`).

    Attributes:
        location: Where the agent is.
        held: The object in its hand, or ``""``.
        opened: Receptacles with a door that is open.
        contents: Receptacle -> the objects in it, in listing order.
        places: Object -> the receptacles that it is in (normally at most one).
        whereabouts: Object -> the locations that it is at; slicing goes by these.
        states: Object -> which of ``clean hot cool sliced toggled`` it is.
    """

    def __init__(self, problem: Problem) -> None:
        self._layout = Layout(problem)
        self.location = problem.start
        self.held = problem.held
        self.opened = frozenset(
            place.name for place in problem.receptacles if place.openable and place.opened
        )
        self.contents: dict[str, tuple[str, ...]] = dict.fromkeys(self._layout.receptacles, ())
        for thing in problem.things:
            for place in thing.receptacles:
                self.contents[place] += (thing.name,)
        self.places = {thing.name: frozenset(thing.receptacles) for thing in problem.things}
        self.whereabouts = {thing.name: thing.locations for thing in problem.things}
        self.states = {thing.name: thing.states for thing in problem.things}
        # Pairs (object, receptacle that it was taken out of and is not in now).
        self._taken_out: frozenset[tuple[str, str]] = frozenset()
        self._local: dict[str, Action] | None = None
        self._admissible: list[str] | None = None
        self._won: bool | None = None

    @property
    def problem(self) -> Problem:
        """The game that this world started from."""
        return self._layout.problem

    @property
    def won(self) -> bool:
        """The goal holds now."""
        if self._won is None:
            self._won = self._layout.is_won(self)
        return self._won

    def copy(self) -> Self:
        """Return an independent world in the same state; costs a few microseconds."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        # All other values are immutable, or replaced as a whole when the state changes.
        twin.contents = self.contents.copy()
        twin.places = self.places.copy()
        twin.whereabouts = self.whereabouts.copy()
        twin.states = self.states.copy()
        return twin

    def intro(self) -> str:
        """Return the text that opens the game: welcome, scene and task."""
        here = self._layout.here(self.location)
        scene = self._look("", "") if here else texts.room(self._layout.room)
        return texts.opening(scene, self.problem.goal_text)

    def admissible(self) -> list[str]:
        """Return every command that would do something now, sorted, each once."""
        if self._admissible is None:
            commands = sorted(self._local_actions())
            at = bisect_left(commands, _GO)
            commands[at:at] = self._layout.departures(self.location)
            self._admissible = commands
        return self._admissible.copy()

    def act(self, command: str) -> str:
        """Carry a command out and return what is seen.

        Surrounding white space is ignored; apart from it, a command counts only if it equals an
        admissible one exactly. Any other text changes nothing.
        """
        command = command.strip()
        destination = self._layout.destinations.get(command)
        if destination is not None:
            return self._go(destination)
        action = self._local_actions().get(command)
        if action is None:
            return texts.REJECTED
        verb, thing, place = action
        return _PERFORM[verb](self, thing, place)

    # -- what can be done here

    def _local_actions(self) -> dict[str, Action]:
        """Every admissible command but ``go to``."""
        if self._local is None:
            actions = dict(self._actions_with_hand())
            for place in self._layout.here(self.location):
                actions.update(self._actions_at(place))
            self._local = actions
        return self._local

    def _actions_with_hand(self) -> Iterator[tuple[str, Action]]:
        held, layout = self.held, self._layout
        yield "inventory", ("inventory", "", "")
        yield "look", ("look", "", "")
        if layout.problem.dialect == "0.4":
            yield "help", ("help", "", "")
        if not held:
            return
        yield f"examine {held}", ("examine", held, "")
        if layout.things[held].otype in _KNIVES:
            for name, thing in layout.things.items():
                if "sliceable" in thing.traits and self.location in self.whereabouts[name]:
                    yield f"slice {name} with {held}", ("slice", name, held)

    def _actions_at(self, place: Receptacle) -> Iterator[tuple[str, Action]]:
        name, things = place.name, self._layout.things
        yield f"examine {name}", ("look into", "", name)
        within_reach = True
        if place.openable:
            within_reach = name in self.opened
            verb = "close" if within_reach else "open"
            yield f"{verb} {name}", (verb, "", name)
        for thing in self.contents[name]:
            traits = things[thing].traits
            if "toggleable" in traits:
                yield f"use {thing}", ("use", thing, "")
            if within_reach and not self.held and "pickupable" in traits:
                yield f"take {thing} from {name}", ("take", thing, name)
        if self.held:
            yield from self._actions_with_held(place, within_reach)

    def _actions_with_held(
        self, place: Receptacle, within_reach: bool
    ) -> Iterator[tuple[str, Action]]:
        held, problem = self._layout.things[self.held], self._layout.problem
        if within_reach and held.otype in problem.can_contain.get(place.rtype, ()):
            command = texts.move_command(held.name, place.name, problem.dialect)
            yield command, ("move", held.name, place.name)
        verb, trait = _APPLIANCES.get(place.rtype, ("", ""))
        if trait in held.traits:
            yield f"{verb} {held.name} with {place.name}", (verb, held.name, place.name)

    # -- what it changes

    def _moved(self) -> None:
        """Forget what was derived from where things are."""
        self._local = self._admissible = self._won = None

    def _go(self, place: Receptacle) -> str:
        if place.location == self.location:
            return texts.REJECTED
        self.location = place.location
        self._moved()
        arrived = place.name if self.problem.dialect == "0.4" else place.location
        return texts.arrived(arrived, self._look_into("", place.name))

    def _open(self, _: str, place: str) -> str:
        self.opened |= {place}
        self._moved()
        return texts.opened(place, self._look_into("", place))

    def _close(self, _: str, place: str) -> str:
        self.opened -= {place}
        self._moved()
        return texts.closed(place)

    def _take(self, thing: str, place: str) -> str:
        self.held = thing
        self.contents[place] = tuple(name for name in self.contents[place] if name != thing)
        self.places[thing] -= {place}
        self.whereabouts[thing] -= {self.location}
        self._taken_out |= {(thing, place)}
        self._moved()
        return texts.taken(thing, place)

    def _move(self, thing: str, place: str) -> str:
        self.held = ""
        contents = {*self.contents[place], thing}
        self.contents[place] = tuple(sorted(contents, key=self._layout.rank.__getitem__))
        self.places[thing] |= {place}
        self.whereabouts[thing] |= {self.location}
        self._taken_out -= {(thing, place)}
        self._moved()
        return texts.moved(thing, place, self.problem.dialect)

    def _become(self, thing: str, state: str, instead_of: str = "") -> None:
        self.states[thing] = (self.states[thing] | {state}) - {instead_of}
        self._won = None

    def _clean(self, thing: str, place: str) -> str:
        self._become(thing, "clean")
        return texts.treated("clean", thing, place)

    def _heat(self, thing: str, place: str) -> str:
        self._become(thing, "hot", instead_of="cool")
        return texts.treated("heat", thing, place)

    def _cool(self, thing: str, place: str) -> str:
        self._become(thing, "cool", instead_of="hot")
        return texts.treated("cool", thing, place)

    def _use(self, thing: str, _: str) -> str:
        self._become(thing, "toggled")
        return texts.turned_on(thing)

    def _slice(self, thing: str, knife: str) -> str:
        self._become(thing, "sliced")
        return texts.sliced(thing, knife)

    # -- what is seen

    def _look_into(self, _: str, name: str) -> str:
        if not self._layout.receptacles[name].openable:
            return texts.surface(name, self.contents[name])
        if name in self.opened:
            return texts.inside(name, self.contents[name])
        return texts.shut(name)

    def _examine(self, name: str, _: str) -> str:
        thing = self._layout.things[name]
        if "receptacle" in thing.traits:
            return texts.container(name, thing.inner)
        return texts.condition(name, thing.traits, self.states[name])

    def _look(self, _: str, __: str) -> str:
        here = [place.name for place in self._layout.here(self.location)]
        return texts.facing(here, self._beside(here)) if here else texts.room(())

    def _beside(self, here: list[str]) -> list[str]:
        """Objects at this location, once per receptacle here that they were taken out of."""
        if not self._taken_out:
            return []
        return [
            thing
            for thing in self._layout.things
            if self.location in self.whereabouts[thing]
            for place in here
            if (thing, place) in self._taken_out
        ]

    def _inventory(self, _: str, __: str) -> str:
        return texts.carrying(self.held)

    def _help(self, _: str, __: str) -> str:
        return texts.HELP


_PERFORM: Final[dict[str, Callable[[World, str, str], str]]] = {
    "open": World._open,
    "close": World._close,
    "take": World._take,
    "move": World._move,
    "clean": World._clean,
    "heat": World._heat,
    "cool": World._cool,
    "use": World._use,
    "slice": World._slice,
    "look into": World._look_into,
    "examine": World._examine,
    "look": World._look,
    "inventory": World._inventory,
    "help": World._help,
}

"""The household as a state machine.

Source: ALFWorld's text engine (alfworld/alfworld 0.4 on TextWorld). Observations and lists of
admissible commands are reproduced byte for byte, odd cases included; the dialect ``"2.1.1"`` is
that of 0.3, which older papers and prompts use. The oddest:

- heating, cooling and cleaning need only the object in hand and the appliance nearby; doors do not
  matter to them, nor to switching a lamp on, nor to slicing;
- several receptacles may share a location, and then all of them are in reach;
- a solved game is no longer solved once its goal is undone.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Self

from skillwright.worlds.alfworld.layout import Layout, Situation
from skillwright.worlds.alfworld.problem import Problem, Receptacle

# A verb, an object and a receptacle (or a second object); "" if there is none.
Action = tuple[str, str, str]

# Class of appliance -> (verb, trait that it needs).
_APPLIANCES: Final = {
    "sinkbasin": ("clean", "cleanable"),
    "microwave": ("heat", "heatable"),
    "fridge": ("cool", "coolable"),
}
_KNIVES: Final = frozenset({"knife", "butterknife"})
_GO: Final = "go to "
_WELCOME: Final = "-= Welcome to TextWorld, ALFRED! =-"
_TASK_MARK: Final = "Your task is to: "
REJECTED: Final = "Nothing happens."

# The line about `move` is narrower than the others, as in the original.
_HELP: Final = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

# (states that must all hold, their words); the first match counts.
_CONDITIONS: Final = (
    ({"clean", "hot", "sliced"}, "hot and clean sliced"),
    ({"clean", "cool", "sliced"}, "cool and clean sliced"),
    ({"clean", "sliced"}, "clean sliced"),
    ({"hot", "sliced"}, "hot sliced"),
    ({"cool", "sliced"}, "cool sliced"),
    ({"clean", "hot"}, "hot and clean"),
    ({"clean", "cool"}, "cool and clean"),
    ({"hot"}, "hot"),
    ({"clean"}, "clean"),
    ({"cool"}, "cold"),
)


class World(Situation):
    """One game in progress; only `act` changes it.

    Raises:
        DataError: The problem contradicts itself (see `Layout`).
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
        self._solved: bool | None = None

    @property
    def problem(self) -> Problem:
        """The game that this world started from."""
        return self._layout.problem

    @property
    def solved(self) -> bool:
        """Whether the goal holds now."""
        if self._solved is None:
            self._solved = self._layout.is_solved(self)
        return self._solved

    def copy(self) -> Self:
        """Return an independent world in the same state, in a few microseconds."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        # All other values are immutable, or replaced as a whole when the state changes.
        twin.contents = self.contents.copy()
        twin.places = self.places.copy()
        twin.whereabouts = self.whereabouts.copy()
        twin.states = self.states.copy()
        return twin

    def intro(self) -> str:
        """Return the opening text: welcome, scene and task."""
        here = self._layout.here(self.location)
        scene = self._look("", "") if here else _room(self._layout.room)
        return f"{_WELCOME}\n\n{scene}\n\n{_TASK_MARK}{self.problem.goal_text}."

    def admissible(self) -> list[str]:
        """Return the commands with an effect now, sorted, each once."""
        if self._admissible is None:
            commands = sorted(self._local_actions())
            at = bisect_left(commands, _GO)
            commands[at:at] = self._layout.departures(self.location)
            self._admissible = commands
        return self._admissible.copy()

    def act(self, command: str) -> str:
        """Execute a command and return the observation.

        Without surrounding white space, a command must equal an admissible one; else nothing
        changes.
        """
        command = command.strip()
        destination = self._layout.destinations.get(command)
        if destination is not None:
            return self._go(destination)
        action = self._local_actions().get(command)
        if action is None:
            return REJECTED
        verb, thing, place = action
        return _PERFORM[verb](self, thing, place)

    def _local_actions(self) -> dict[str, Action]:
        """Return every admissible command but ``go to``."""
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
            command = move_command(held.name, place.name, problem.dialect)
            yield command, ("move", held.name, place.name)
        verb, trait = _APPLIANCES.get(place.rtype, ("", ""))
        if trait in held.traits:
            yield f"{verb} {held.name} with {place.name}", (verb, held.name, place.name)

    def _moved(self) -> None:
        """Drop what was derived from the places of things."""
        self._local = self._admissible = self._solved = None

    def _go(self, place: Receptacle) -> str:
        if place.location == self.location:
            return REJECTED
        self.location = place.location
        self._moved()
        arrived = place.name if self.problem.dialect == "0.4" else place.location
        return f"You arrive at {arrived}. {self._look_into('', place.name)}"

    def _open(self, _: str, place: str) -> str:
        self.opened |= {place}
        self._moved()
        return f"You open the {place}. {self._look_into('', place)}"

    def _close(self, _: str, place: str) -> str:
        self.opened -= {place}
        self._moved()
        return f"You close the {place}."

    def _take(self, thing: str, place: str) -> str:
        self.held = thing
        self.contents[place] = tuple(name for name in self.contents[place] if name != thing)
        self.places[thing] -= {place}
        self.whereabouts[thing] -= {self.location}
        self._taken_out |= {(thing, place)}
        self._moved()
        return f"You pick up the {thing} from the {place}."

    def _move(self, thing: str, place: str) -> str:
        self.held = ""
        contents = {*self.contents[place], thing}
        self.contents[place] = tuple(sorted(contents, key=self._layout.rank.__getitem__))
        self.places[thing] |= {place}
        self.whereabouts[thing] |= {self.location}
        self._taken_out -= {(thing, place)}
        self._moved()
        if self.problem.dialect == "0.4":
            return f"You move the {thing} to the {place}."
        return f"You put the {thing} in/on the {place}."

    def _become(self, thing: str, state: str, instead_of: str = "") -> None:
        self.states[thing] = (self.states[thing] | {state}) - {instead_of}
        self._solved = None

    def _clean(self, thing: str, place: str) -> str:
        self._become(thing, "clean")
        return f"You clean the {thing} using the {place}."

    def _heat(self, thing: str, place: str) -> str:
        self._become(thing, "hot", instead_of="cool")
        return f"You heat the {thing} using the {place}."

    def _cool(self, thing: str, place: str) -> str:
        self._become(thing, "cool", instead_of="hot")
        return f"You cool the {thing} using the {place}."

    def _use(self, thing: str, _: str) -> str:
        self._become(thing, "toggled")
        return f"You turn on the {thing}."

    def _slice(self, thing: str, knife: str) -> str:
        self._become(thing, "sliced")
        return f"You sliced the {thing} with the {knife}."

    def _look_into(self, _: str, name: str) -> str:
        if not self._layout.receptacles[name].openable:
            return f"On the {name}, you see {_a_list(self.contents[name])}."
        if name in self.opened:
            return f"The {name} is open. In it, you see {_a_list(self.contents[name])}."
        return f"The {name} is closed."

    def _examine(self, name: str, _: str) -> str:
        thing = self._layout.things[name]
        if "receptacle" in thing.traits:
            # It never reports its own condition.
            return f"This is a normal {name}. In it, you see {_a_list(thing.inner)}."
        for needed, words in _CONDITIONS:
            if needed <= self.states[name]:
                return f"This is a {words} {name}."
        if "toggleable" in thing.traits:
            return f"This {name} is {'on' if 'toggled' in self.states[name] else 'off'}."
        if "sliceable" in thing.traits and "sliced" in self.states[name]:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _look(self, _: str, __: str) -> str:
        here = [place.name for place in self._layout.here(self.location)]
        if not here:
            return _room(())
        beside = _a_list(self._beside(here))
        return f"You are facing the {_joined(here)}. Next to it, you see {beside}."

    def _beside(self, here: list[str]) -> list[str]:
        """Return objects at this location, once per receptacle here that they were taken out of."""
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
        return (
            f"You are carrying: a {self.held}." if self.held else "You are not carrying anything."
        )

    def _help(self, _: str, __: str) -> str:
        return _HELP


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


def move_command(thing: str, place: str, dialect: str) -> str:
    """Return the command that puts an object down."""
    return f"move {thing} to {place}" if dialect == "0.4" else f"put {thing} in/on {place}"


def _joined(phrases: Sequence[str]) -> str:
    """Join phrases as the original does: ``", and "`` before the last, also for two of them."""
    if len(phrases) < 2:
        return phrases[0] if phrases else "nothing"
    return f"{', '.join(phrases[:-1])}, and {phrases[-1]}"


def _a_list(names: Iterable[str]) -> str:
    return _joined([f"a {name}" for name in names])


def _room(receptacles: Iterable[str]) -> str:
    """Return the view from a place without receptacles."""
    return (
        "You are in the middle of a room. Looking quickly around you, "
        f"you see {_a_list(receptacles)}."
    )

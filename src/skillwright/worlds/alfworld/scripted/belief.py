"""An agent's knowledge from its conversation: task, observations, and conclusions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from skillwright.core import Message
from skillwright.core.agent import action_in

COMMANDS_MARK: Final = "Admissible commands:"
_REJECTED: Final = "Nothing happens."

_ARRIVED = re.compile(r"You arrive at ([^.]+)\.")
_SURFACE = re.compile(r"On the ([^,.]+), you see ([^.]+)\.")
_OPEN = re.compile(r"The ([^,.]+) is open\. In it, you see ([^.]+)\.")
_CLOSED = re.compile(r"The ([^,.]+) is closed\.|You close the ([^,.]+)\.")
_TAKEN = re.compile(r"You pick up the ([^,.]+) from the ([^,.]+)\.")
_MOVED = re.compile(r"You (?:move|put) the ([^,.]+) (?:to|in/on) the ([^,.]+)\.")
_TREATED = re.compile(r"You (clean|heat|cool) the ([^,.]+) using the ([^,.]+)\.")
_LIT = re.compile(r"You turn on the ([^,.]+)\.")
_CARRYING = re.compile(r"You are (?:carrying: a ([^,.]+)|not carrying anything)\.")
_ROOM = re.compile(r"Looking quickly around you, you see ([^.]+)\.")
_FACING = re.compile(r"You are facing the ([^.]+?)\. Next to it")


class Observation(NamedTuple):
    """The facts in one message of the household."""

    text: str  # without the list of commands
    # the admissible commands, or ``None`` if the message does not list them
    commands: tuple[str, ...] | None
    arrived: str  # the place that was reached, or ""
    contents: dict[str, tuple[str, ...]]  # place -> objects seen in or on it
    closed: tuple[str, ...]  # closed places
    opened: tuple[str, ...]  # open places with a door
    taken: tuple[str, str] | None  # (object, place) that was picked up, or ``None``
    moved: tuple[str, str] | None  # (object, place) that was put down, or ``None``
    treated: tuple[str, str] | None  # (verb, object), or ``None``
    lit: str  # the lamp that was switched on, or ""
    carrying: str | None  # the inventory, "" for nothing, ``None`` if not shown
    places: tuple[str, ...]  # receptacles in the room, if listed
    facing: tuple[str, ...]  # receptacles within reach, if listed
    rejected: bool  # the last command did nothing


@lru_cache(maxsize=16384)
def read_observation(content: str) -> Observation:
    """Read a message; a cached pure function."""
    text, mark, listing = content.rpartition(COMMANDS_MARK)
    if not mark:
        text, listing = content, ""
    arrived, taken, moved = _ARRIVED.search(text), _TAKEN.search(text), _MOVED.search(text)
    treated, lit, carrying = _TREATED.search(text), _LIT.search(text), _CARRYING.search(text)
    room, facing = _ROOM.search(text), _FACING.search(text)
    inside = {place: _names(seen) for place, seen in _OPEN.findall(text)}
    on_top = {place: _names(seen) for place, seen in _SURFACE.findall(text)}
    return Observation(
        text=text.strip(),
        commands=tuple(part.strip() for part in listing.split(",")) if mark else None,
        arrived=arrived[1] if arrived else "",
        contents={**inside, **on_top},
        closed=tuple(a or b for a, b in _CLOSED.findall(text)),
        opened=tuple(inside),
        taken=(taken[1], taken[2]) if taken else None,
        moved=(moved[1], moved[2]) if moved else None,
        treated=(treated[1], treated[2]) if treated else None,
        lit=lit[1] if lit else "",
        carrying=(carrying[1] or "") if carrying else None,
        places=_names(room[1]) if room else (),
        facing=_names(facing[1]) if facing else (),
        rejected=text.startswith(_REJECTED),
    )


def class_of(name: str) -> str:
    """Return the class in a name: "cabinet" for "cabinet 3".

    Some official files spell a basin so that the game calls it "sinkbasinbasin 1".
    """
    return (name.rpartition(" ")[0] or name).replace("basinbasin", "basin")


def _names(listing: str) -> tuple[str, ...]:
    """Return the names in "a book 1, a cd 2, and a pen 1"; none for "nothing"."""
    if listing == "nothing":
        return ()
    parts = (part.removeprefix("and ").removeprefix("a ") for part in listing.split(", "))
    return tuple(part for part in parts if part)


_MARK: Final = "Your task is to:"


class Kind(StrEnum):
    """The six task types of household tasks. Source: ALFWorld (Shridhar et al., 2021)."""

    PLACE = "pick_and_place_simple"
    LOOK = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    TWO = "pick_two_obj_and_place"


VERBS: Final = {Kind.CLEAN: "clean", Kind.HEAT: "heat", Kind.COOL: "cool"}
"""Kind -> the command that gives the object its state."""

APPLIANCES: Final = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Command -> the receptacle class that it needs."""

_STATES: Final = {
    "clean": Kind.CLEAN,
    "hot": Kind.HEAT,
    "heat": Kind.HEAT,
    "cool": Kind.COOL,
    "cold": Kind.COOL,
}
_SENTENCES: Final = (
    (Kind.LOOK, "(?:look at|examine) SOME?OBJECT (?:under|with|by) SOME?TARGET"),
    (Kind.TWO, "(?:put|find) two OBJECT (?:and put them )?(?:in|on) SOME?TARGET"),
    (None, "STATE SOME?OBJECT and put it (?:in|on) SOME?TARGET"),
    (None, "put SOME?STATE OBJECT (?:in|on) SOME?TARGET"),
    (Kind.PLACE, "put SOME?OBJECT (?:in|on) SOME?TARGET"),
)
_SLOTS: Final = {
    "SOME": "(?:an? |some |the )",
    "OBJECT": r"(?P<object>\w+)",
    "TARGET": r"(?P<target>\w+)",
    "STATE": f"(?P<state>{'|'.join(_STATES)})",
}


def _compiled(sentence: str) -> re.Pattern[str]:
    for name, pattern in _SLOTS.items():
        sentence = sentence.replace(name, pattern)
    return re.compile(sentence, re.IGNORECASE)


_READERS: Final = tuple((kind, _compiled(sentence)) for kind, sentence in _SENTENCES)


@dataclass(frozen=True, slots=True)
class Errand:
    """A household task."""

    kind: Kind
    wanted: str  # the class of the object
    target: str  # the class of the destination, or of the lamp

    @property
    def verb(self) -> str:
        """The command that gives the object its state, or ""."""
        return VERBS.get(self.kind, "")


def tells_errand(text: str) -> bool:
    """Tell whether a text has a task sentence."""
    return _MARK in text


def read_errand(opening: str) -> Errand | None:
    """Read the task sentence of a game's first text; ``None`` without one."""
    _, mark, goal = opening.partition(_MARK)
    if not mark:
        return None
    for kind, sentence in _READERS:
        found = sentence.search(goal)
        if found:
            sort = kind or _STATES[found["state"].lower()]
            return Errand(sort, found["object"].lower(), found["target"].lower())
    return None


_UNDOES = {"heat": "cool", "cool": "heat"}
_ROOM_MARKS = (
    ("kitchen", {"microwave", "fridge", "stoveburner", "toaster"}),
    ("bathroom", {"toilet", "bathtubbasin", "toiletpaperhanger", "towelholder"}),
    ("bedroom", {"bed"}),
)


class Belief:
    """The state of an episode according to its texts: commands and observations, in order."""

    def __init__(self) -> None:
        self.errand: Errand | None = None  # ``None`` if no text has it
        self.places: tuple[str, ...] = ()  # receptacles, in listing order
        self.here = ""  # the place that the agent went to last, or ""
        self.beside: set[str] = set()  # other places within reach from there
        self.contents: dict[str, tuple[str, ...]] = {}  # place -> objects last seen there
        self.closed: set[str] = set()  # places known to be closed
        self.doors: set[str] = set()  # places with a door
        # place -> number of visits, in order of the first
        self.visits: dict[str, int] = {}
        self.held = ""  # the object in hand, or ""
        # object -> verbs applied to it; heat and cool undo each other
        self.treated: dict[str, set[str]] = {}
        self.placed: dict[str, str] = {}  # object -> where the agent put it
        self.lit: set[str] = set()  # lamps that are on
        self.commands: list[str] = []
        # commands since the agent last reached a place, newest last
        self.since_move: list[str] = []
        self.latest: Observation = read_observation("")

    def open_with(self, opening: str) -> None:
        """Read the first text of a game: the task, all receptacles, and those within reach."""
        seen = read_observation(opening)
        self.errand = read_errand(seen.text)
        goals = tuple(c[6:] for c in seen.commands or () if c.startswith("go to "))
        self.places = tuple(dict.fromkeys(seen.places + seen.facing + goals))
        self.beside.update(seen.facing)
        self.latest = seen

    def act(self, command: str) -> None:
        """Add a command of the agent."""
        self.commands.append(command)
        self.since_move.append(command)

    def read(self, content: str) -> None:
        """Read the observation after a command."""
        seen = read_observation(content)
        self.latest = seen
        if seen.arrived:
            self._arrive(seen)
        elif seen.rejected and self.last_command.startswith("go to "):
            # The agent cannot go where it already is.
            self.beside.update({self.last_command[6:]} & set(self.places))
        self.contents.update(seen.contents)
        if seen.closed or seen.opened:
            self.closed.update(seen.closed)
            self.closed.difference_update(seen.opened)
            self.doors.update(seen.closed, seen.opened)
        if seen.taken:
            self._take(*seen.taken)
        elif seen.moved:
            self._put(*seen.moved)
        elif seen.treated:
            self._treat(*seen.treated)
        elif seen.lit:
            self.lit.add(seen.lit)
        elif seen.carrying is not None:
            self.held = seen.carrying

    @property
    def last_command(self) -> str:
        """The command given last, or ""."""
        return self.commands[-1] if self.commands else ""

    def whereabouts(self, cls: str) -> dict[str, str]:
        """Return objects of a class that were seen and not moved since, each with its place."""
        return {
            name: place
            for place, names in self.contents.items()
            for name in names
            if class_of(name) == cls
        }

    def was_searched(self, place: str) -> bool:
        """Tell whether the place was reached, or its contents seen from a neighboring one."""
        return place in self.visits or place in self.contents or place in self.doors

    @property
    def room(self) -> str:
        """The kind of room, guessed by its furniture."""
        return room_of(self.places)

    def _arrive(self, seen: Observation) -> None:
        # Older dialects announce "loc 12" instead of the receptacle that was requested.
        asked = self.last_command.removeprefix("go to ")
        self.here = seen.arrived if seen.arrived in self.places else asked
        if self.here and self.here not in self.places:
            self.places += (self.here,)
        self.visits[self.here] = self.visits.get(self.here, 0) + 1
        self.since_move = []
        self.beside.clear()

    def _take(self, name: str, place: str) -> None:
        self.held = name
        self.placed.pop(name, None)
        left = self.contents.get(place, ())
        self.contents[place] = tuple(other for other in left if other != name)

    def _put(self, name: str, place: str) -> None:
        self.held = ""
        self.placed[name] = place
        self.contents[place] = (*self.contents.get(place, ()), name)

    def _treat(self, verb: str, name: str) -> None:
        verbs = self.treated.setdefault(name, set())
        verbs.add(verb)
        verbs.discard(_UNDOES.get(verb, ""))


def room_of(places: Iterable[str]) -> str:
    """Guess the kind of room by its furniture."""
    classes = {class_of(place) for place in places}
    return next((room for room, marks in _ROOM_MARKS if marks & classes), "living room")


def read_conversation(messages: Sequence[Message]) -> Belief:
    """Read a conversation; each task sentence opens an episode, so examples may come first."""
    belief = Belief()
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "assistant":
            belief.act(action_in(content))
        elif role == "user":
            belief = hear(belief, content)
    return belief


def hear(belief: Belief, content: str) -> Belief:
    """Read a message of the household; a task sentence opens a new episode."""
    if not tells_errand(content):
        belief.read(content)
        return belief
    fresh = Belief()
    fresh.open_with(content)
    return fresh


# Everyday knowledge: where things of a class may be. It is used only if a skill asks for it.
# Source: the content lists of ALFRED's receptacles (Shridhar et al., 2020).


_SEAT: Final = """
basketball book box cellphone cloth creditcard keychain laptop newspaper pillow remotecontrol
"""
_DESK: Final = """
alarmclock basketball book bowl box cd candle cellphone cloth creditcard cup glassbottle keychain
laptop mug newspaper pen pencil plate remotecontrol spraybottle statue tennisracket tissuebox
toiletpaper toiletpaperroll vase watch wateringcan winebottle desklamp
"""
_FOOD: Final = (
    "apple bowl bread cup egg glassbottle lettuce mug pan plate pot potato tomato winebottle"
)
_HELD: Final = {
    "armchair": _SEAT,
    "ottoman": _SEAT,
    "sofa": _SEAT,
    "bathtubbasin": "cloth dishsponge handtowel soapbar",
    "bed": "baseballbat basketball book cellphone laptop newspaper pillow tennisracket",
    "cabinet": """
        book bowl box cd candle cloth cup dishsponge glassbottle handtowel kettle ladle mug
        newspaper pan peppershaker plate plunger pot saltshaker soapbar soapbottle spraybottle
        tissuebox toiletpaper toiletpaperroll vase wateringcan winebottle
    """,
    "cart": """
        candle cloth dishsponge handtowel mug papertowel plunger soapbar soapbottle spraybottle
        statue tissuebox toiletpaper toiletpaperroll vase
    """,
    "coffeemachine": "mug",
    "desk": _DESK,
    "dresser": _DESK,
    "drawer": """
        book butterknife cd candle cellphone cloth creditcard dishsponge fork handtowel keychain
        knife ladle newspaper pen pencil peppershaker remotecontrol saltshaker soapbar soapbottle
        spatula spoon spraybottle tissuebox toiletpaper toiletpaperroll watch wateringcan
    """,
    "fridge": _FOOD,
    "garbagecan": """
        apple bread cd cloth dishsponge egg handtowel lettuce newspaper papertowel pen pencil potato
        soapbar soapbottle spraybottle tissuebox toiletpaper toiletpaperroll tomato winebottle
    """,
    "handtowelholder": "handtowel",
    "laundryhamper": "cloth",
    "microwave": "apple bowl bread cup egg glassbottle mug plate potato tomato",
    "safe": "cd cellphone creditcard keychain statue vase watch",
    "shelf": f"""
        {_DESK} cloth dishsponge handtowel kettle papertowel peppershaker saltshaker soapbar
    """,
    "sinkbasin": f"{_FOOD} butterknife cloth dishsponge fork handtowel kettle knife ladle soapbar",
    "stoveburner": "kettle pan pot",
    "toaster": "",
    "toilet": """
        candle cloth dishsponge handtowel newspaper papertowel soapbar soapbottle spraybottle
        tissuebox toiletpaper toiletpaperroll
    """,
    "toiletpaperhanger": "toiletpaper toiletpaperroll",
    "towelholder": "towel",
    "tvstand": "tissuebox",
}
_CONTENTS: Final = {place: frozenset(words.split()) for place, words in _HELD.items()}
_NEVER_ON_TABLES: Final = frozenset({"pillow", "plunger", "towel"})
_WITH_DOORS: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "box"})
LAMP_CLASSES: Final = frozenset({"desklamp", "floorlamp"})
_LAMP_STANDS: Final = frozenset({"desk", "dresser", "shelf", "sidetable"})


def may_hold(place: str, thing: str) -> bool:
    """Tell whether things of a class are found in receptacles of a class; tables hold most."""
    if thing in LAMP_CLASSES:
        return place in _LAMP_STANDS
    held = _CONTENTS.get(place)
    return thing not in _NEVER_ON_TABLES if held is None else thing in held


def by_likelihood(places: Iterable[str], thing: str) -> Sequence[str]:
    """Sort places ("cabinet 3") by likelihood for a thing, and open ones before closed ones."""

    def unlikeliness(place: str) -> tuple[bool, bool]:
        cls = class_of(place)
        return not may_hold(cls, thing), cls in _WITH_DOORS

    return sorted(places, key=unlikeliness)

"""Households: homes with fixed places for things, and the sentences that describe them.

All games of a household have the same rooms and furniture, and most things are where the
household's habits say. The habits are not in a game's text; an agent can only learn them from other
games of the same household, and then needs no search.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwright.core import BankSkill, DataError, SkillKind
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld.problem import Receptacle
from skillwright.worlds.alfworld.tables import (
    ALL_TASK_TYPES,
    HOLDERS,
    LAMP_PLACES,
    LAMPS,
    LOOK,
    OPENABLE,
    PLACEABLE,
    ROOMS,
    SCENES_PER_ROOM,
    TRAITS,
)

FEWEST_RECEPTACLES: Final = 10
MOST_RECEPTACLES: Final = 25

MOST_EFFORT: Final = 38
"""Commands that may be needed to look into everything (a visit each, and one more per door). Of 50
commands, 12 are left for the task, so that a complete search always suffices."""

# Floor plans have up to 28 cabinets; rooms with more are cut below anyway.
_MOST_OF_A_CLASS: Final = {"cabinet": 8, "drawer": 7, "shelf": 6}

# Small rooms get more of these.
_GROWING: Final = frozenset({"cabinet", "drawer"})

# The statistics count only receptacles with a recorded pose and miss burners; a stove has four.
_BURNERS: Final = 4

START: Final = "loc 1"

Furniture = Mapping[str, int]
"""Receptacle class -> number."""


def sample_furniture(room: str, rng: random.Random) -> Furniture:
    """Draw the furniture of a kind of room from the statistics of the floor plans.

    It is then made playable: `FEWEST_RECEPTACLES` to `MOST_RECEPTACLES` pieces that take at most
    `MOST_EFFORT` commands to search, some with doors, and a place for a lamp in rooms that may have
    one.
    """
    counts: dict[str, int] = {}
    for rtype, seen in ROOMS[room].receptacles.items():
        if rng.random() * SCENES_PER_ROOM < seen.scenes:
            most = min(seen.most, _MOST_OF_A_CLASS.get(rtype, seen.most))
            counts[rtype] = rng.randint(seen.fewest, most)
    if "stoveburner" in counts:
        counts["stoveburner"] = _BURNERS
    if LAMPS & ROOMS[room].objects.keys() and not LAMP_PLACES & counts.keys():
        counts["sidetable"] = 1
    if not counts.keys() & _GROWING:
        counts["drawer"] = 1
    growing = [rtype for rtype in counts if rtype in _GROWING]
    while sum(counts.values()) < FEWEST_RECEPTACLES:
        counts[rng.choice(growing)] += 1
    while sum(counts.values()) > MOST_RECEPTACLES or effort(counts) > MOST_EFFORT:
        counts[max(counts, key=lambda rtype: counts[rtype])] -= 1
    return counts


def effort(furniture: Furniture) -> int:
    """Return the number of commands that it takes to look into everything once."""
    return sum(n * (2 if rtype in OPENABLE else 1) for rtype, n in furniture.items())


def receptacle_names(furniture: Furniture) -> list[str]:
    """List the surface names of all pieces, class by class."""
    return [f"{rtype} {number}" for rtype, n in furniture.items() for number in range(1, n + 1)]


def furnish(furniture: Furniture) -> tuple[Receptacle, ...]:
    """Build the receptacles in listing order, one location each; `START` has none."""
    names = {
        encoded_id(rtype, ordinal): (rtype, surface_name(rtype, ordinal, n))
        for rtype, n in furniture.items()
        for ordinal in range(1, n + 1)
    }
    last = len(names) + 1
    return tuple(
        Receptacle(name, sort_key, rtype, f"loc {last - index}", openable=rtype in OPENABLE)
        for index, (sort_key, (rtype, name)) in enumerate(sorted(names.items()))
    )


def surface_name(cls: str, ordinal: int, count: int) -> str:
    """Name the ``ordinal``-th of ``count`` ids of a class as ALFWorld does: numbers fall."""
    return f"{cls} {count + 1 - ordinal}"


def encoded_id(cls: str, ordinal: int) -> str:
    """Return the lower-case problem id of a piece or an object.

    Basins have the two-part form of the simulator (``sink_bar_01_bar_sinkbasin``): names are made
    from the part before the first ``_bar_``, with ``basin`` added.
    """
    whole = cls.removesuffix("basin")
    return f"{cls}_bar_{ordinal:02}" if whole == cls else f"{whole}_bar_{ordinal:02}_bar_{cls}"


HABIT_STRENGTH: Final = 0.9
"""Probability that an object of a class with a habit is in its place. Lamps always are."""

_PLACES_OF_A_KIND: Final = 3
"""Maximum number of places with a door, and of places without, in a room's habits."""

_FEWEST_FITTING: Final = 4
"""Minimum number of the room's object classes that must fit into a place with a habit."""

_NEVER_KEPT_IN: Final = frozenset({"garbagecan", "microwave", "sinkbasin"})


_DOORS_TO_HIDE_BEHIND: Final = 4
"""Minimum number of doors of the room that could hide an object."""


@dataclass(frozen=True, slots=True)
class Household:
    """A home.

    Attributes:
        index: Number of the home; equal numbers are equal homes.
        furniture: Kind of room -> its furniture.
        habits: Kind of room -> object class -> surface name of its receptacle.
    """

    index: int
    furniture: Mapping[str, Furniture]
    habits: Mapping[str, Mapping[str, str]]


@lru_cache(maxsize=256)
def household(index: int) -> Household:
    """Return a home; raise `DataError` if the index is negative."""
    if index < 0:
        raise DataError(f"there is no household {index}; they are numbered from 0")
    rng = random.Random(derive_seed("alfworld-household", index))
    furniture = {room: sample_furniture(room, rng) for room in ROOMS}
    habits = {room: _habits(room, furniture[room], rng) for room in ROOMS}
    return Household(index, furniture, habits)


def habits_text(home: Household) -> str:
    """Return a household's habits as skill text, in the spelling of observations."""
    lines = ["In this home, things are nearly always kept in their places:"]
    for room in home.habits:
        kept = _kept(home, room)
        lines += [f"- {_sentence(room, place, otypes)}" for place, otypes in kept.items()]
    return "\n".join(lines)


def habit_skills(home: Household) -> list[BankSkill]:
    """Return a household's habits as the ideal bank skills, one per category, room and place."""
    kept = []
    for kind in ALL_TASK_TYPES:
        able = TRAITS.get(kind.trait, PLACEABLE)
        wanted = able | LAMPS if kind.name == LOOK else able
        for room in kind.rooms:
            for place, otypes in _kept(home, room).items():
                named = [otype for otype in otypes if otype in wanted]
                if named:
                    kept.append((kind.category, room, place, named))
    return [
        BankSkill(
            id=f"h{home.index}-{number:03}",
            name=f"{room.capitalize()}, {place}",
            principle=_sentence(room, place, named),
            applicability=f"in this home's {room}",
            kind=SkillKind.TASK_SPECIFIC,
            category=category,
            scope=f"household {home.index}",
        )
        for number, (category, room, place, named) in enumerate(kept, start=1)
    ]


def keeps_hidden(home: Household, room: str, otype: str) -> bool:
    """Tell whether an agent needs the habits to find an object.

    It is behind a door, and looking behind all other doors of the room that could hide it
    (`_DOORS_TO_HIDE_BEHIND`) takes too long.
    """
    kept = home.habits[room].get(otype, "")
    doors = [
        name
        for name in receptacle_names(home.furniture[room])
        if rtype_of(name) in OPENABLE - _NEVER_KEPT_IN and _fits(otype, name)
    ]
    return kept in doors and len(doors) >= _DOORS_TO_HIDE_BEHIND


def rtype_of(receptacle_name: str) -> str:
    """Return the class in a surface name ("cabinet" for "cabinet 3")."""
    return receptacle_name.rpartition(" ")[0]


def _kept(home: Household, room: str) -> dict[str, list[str]]:
    """Group a room's habits by place, in the order of their names."""
    kept: dict[str, list[str]] = {}
    for otype, place in home.habits[room].items():
        kept.setdefault(place, []).append(otype)
    return dict(sorted(kept.items()))


def _sentence(room: str, place: str, otypes: list[str]) -> str:
    preposition = "in" if rtype_of(place) in OPENABLE else "on"
    return f"In this home's {room}, every {_enumerated(otypes)} is kept {preposition} {place}."


def _habits(room: str, furniture: Furniture, rng: random.Random) -> dict[str, str]:
    names = receptacle_names(furniture)
    storage = _storage(room, names, rng)
    habits = {}
    for otype in ROOMS[room].objects:
        places = names if otype in LAMPS else storage
        fitting = [place for place in places if _fits(otype, place)]
        if fitting:
            habits[otype] = rng.choice(fitting)
    return habits


def _storage(room: str, names: list[str], rng: random.Random) -> list[str]:
    """Choose the places in a room's habits, some with a door and some without."""
    worthy = [
        name
        for name in names
        if rtype_of(name) not in _NEVER_KEPT_IN
        and sum(_fits(otype, name) for otype in ROOMS[room].objects) >= _FEWEST_FITTING
    ]
    doors = [name for name in worthy if rtype_of(name) in OPENABLE]
    tops = [name for name in worthy if rtype_of(name) not in OPENABLE]
    return [
        place
        for kind in (doors, tops)
        for place in rng.sample(kind, min(_PLACES_OF_A_KIND, len(kind)))
    ]


def _fits(otype: str, place: str) -> bool:
    return rtype_of(place) in HOLDERS[otype]


def _enumerated(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"

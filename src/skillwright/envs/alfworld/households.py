"""Households: homes where everything has its place, and the sentences that tell it.

All games of a household are set in the same rooms with the same furniture, and nearly everything
lies where the household's habits say. An agent that knows them need not search; nothing in a
game's text gives them away, so they can only be learnt from other games of the same household.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwright.core import DataError
from skillwright.core.seeds import derive_seed
from skillwright.envs.alfworld.rooms import Furniture, receptacle_names, sample_furniture
from skillwright.envs.alfworld.tables import HOLDERS, LAMPS, OPENABLE, ROOMS

HABIT_STRENGTH: Final = 0.9
"""Chance that an object of a class with a habit lies where the habit says. Lamps always do."""

_PLACES_OF_A_KIND: Final = 3
"""A room's habits name at most so many places with a door, and so many without."""

_FEWEST_FITTING: Final = 4
"""A place is worth a habit if so many of the room's object classes fit into it."""

_NEVER_KEPT_IN: Final = frozenset({"garbagecan", "microwave", "sinkbasin"})


@dataclass(frozen=True, slots=True)
class Household:
    """A home.

    Attributes:
        index: Which home it is; equal indices are equal homes.
        furniture: Kind of room -> its furniture.
        habits: Kind of room -> object class -> surface name of the receptacle where it is kept.
    """

    index: int
    furniture: Mapping[str, Furniture]
    habits: Mapping[str, Mapping[str, str]]


@lru_cache(maxsize=256)
def household(index: int) -> Household:
    """Look up a home.

    Raises:
        DataError: The index is negative.
    """
    if index < 0:
        raise DataError(f"there is no household {index}; they are numbered from 0")
    rng = random.Random(derive_seed("alfworld-household", index))
    furniture = {room: sample_furniture(room, rng) for room in ROOMS}
    habits = {room: _habits(room, furniture[room], rng) for room in ROOMS}
    return Household(index, furniture, habits)


def habits_text(home: Household) -> str:
    """Tell a home's habits as skill text, one sentence per room and place.

    Classes and places are spelled as observations spell them.
    """
    lines = ["In this home, things are nearly always kept in their places:"]
    for room, habits in home.habits.items():
        kept: dict[str, list[str]] = {}
        for otype, place in habits.items():
            kept.setdefault(place, []).append(otype)
        lines += [
            f"- In this home's {room}, every {_enumerated(kept[place])} is kept "
            f"{'in' if rtype_of(place) in OPENABLE else 'on'} {place}."
            for place in sorted(kept)
        ]
    return "\n".join(lines)


def rtype_of(receptacle_name: str) -> str:
    """Return the class in a surface name ("cabinet" for "cabinet 3")."""
    return receptacle_name.rpartition(" ")[0]


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
    """Choose the places that a room's habits name, some with a door and some without."""
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

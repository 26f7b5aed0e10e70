"""Empty rooms: how much furniture stands in them, and what it is called."""

import random
from collections.abc import Mapping
from typing import Final

from skillwright.envs.alfworld.problem import Receptacle
from skillwright.envs.alfworld.tables import LAMP_PLACES, LAMPS, OPENABLE, ROOMS, SCENES_PER_ROOM

FEWEST_RECEPTACLES: Final = 10
MOST_RECEPTACLES: Final = 25

MOST_EFFORT: Final = 38
"""Commands that looking into everything may take (a visit each, and one more per door). With 50
commands in all, 12 are left for the task itself, so that a patient searcher always has enough."""

# Floor plans go up to 28 cabinets; a room of which half is cabinets would be cut below anyway.
_MOST_OF_A_CLASS: Final = {"cabinet": 8, "drawer": 7, "shelf": 6}

# Of these, a room that is small gets more.
_GROWING: Final = frozenset({"cabinet", "drawer"})

# The statistics count only receptacles with a recorded pose and so miss burners; a stove has four.
_BURNERS: Final = 4

START: Final = "loc 1"

Furniture = Mapping[str, int]
"""Receptacle class -> how many."""


def sample_furniture(room: str, rng: random.Random) -> Furniture:
    """Choose the furniture of a kind of room by the statistics of the floor plans.

    The choice is then made playable: `FEWEST_RECEPTACLES` to `MOST_RECEPTACLES` pieces that take
    at most `MOST_EFFORT` commands to search, some of them with doors, and a place for a lamp in
    rooms that may have one.
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
    """Count the commands that it takes to look into everything once."""
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
    """Name the ``ordinal``-th of ``count`` ids of a class: numbers fall as ids rise.

    Source: ALFWorld's naming of entities.
    """
    return f"{cls} {count + 1 - ordinal}"


def encoded_id(cls: str, ordinal: int) -> str:
    """Write the lower-cased problem id of a piece or an object.

    Basins have the two-part form of the simulator (``sink_bar_01_bar_sinkbasin``): names are made
    from the part before the first ``_bar_``, to which ``basin`` is added.
    """
    whole = cls.removesuffix("basin")
    return f"{cls}_bar_{ordinal:02}" if whole == cls else f"{whole}_bar_{ordinal:02}_bar_{cls}"

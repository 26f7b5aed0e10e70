"""One observation as facts: what was seen where, and what the last command did."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

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

    text: str  # the observation itself, without the list of commands
    # the admissible commands, or ``None`` where the message does not list them
    commands: tuple[str, ...] | None
    arrived: str  # the place that was reached, or ""
    contents: dict[str, tuple[str, ...]]  # place -> what is seen in or on it
    closed: tuple[str, ...]  # places that are seen to be closed
    opened: tuple[str, ...]  # places that are seen to be open, with a door
    taken: tuple[str, str] | None  # (object, place) that was picked up, or ``None``
    moved: tuple[str, str] | None  # (object, place) that was put down, or ``None``
    treated: tuple[str, str] | None  # (verb, object), or ``None``
    lit: str  # the lamp that was switched on, or ""
    carrying: str | None  # what the inventory shows, "" for nothing, ``None`` where it is not shown
    places: tuple[str, ...]  # receptacles in the room, where the text lists them
    facing: tuple[str, ...]  # receptacles within reach, where the text lists them
    rejected: bool  # the last command did nothing


@lru_cache(maxsize=16384)
def read_observation(content: str) -> Observation:
    """Read a message. The answer depends on the text alone; the memo only saves time."""
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
    """Split "a book 1, a cd 2, and a pen 1"."""
    if listing == "nothing":
        return ()
    parts = (part.removeprefix("and ").removeprefix("a ") for part in listing.split(", "))
    return tuple(part for part in parts if part)

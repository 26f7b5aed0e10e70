"""Where a home keeps its things, learnt from where they were seen."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.scripted.analyst.episode import Episode
from skillwright.scripted.household import class_of, room_of
from skillwright.scripted.skilltext import Habit, read_habits
from skillwright.scripted.skilltext.sentences import blocks, sentences

_FEWEST_SIGHTINGS: Final = 2
_LONGEST: Final = 280
_WITH_DOORS: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "box"})


@dataclass(frozen=True, slots=True)
class Storage:
    """What one receptacle holds."""

    room: str  # the kind of room that it stands in
    place: str  # its name
    classes: tuple[str, ...]  # what is kept there, by name
    shown: tuple[str, ...]  # the trajectories that show it

    @property
    def name(self) -> str:
        """The name of the skill that tells it."""
        return f"{self.room.capitalize()} {self.place}"

    @property
    def principle(self) -> str:
        """What the skill says."""
        where = "in" if class_of(self.place) in _WITH_DOORS else "on"
        return (
            f"In this home's {self.room}, every {_enumerated(self.classes, 'and')} is kept "
            f"{where} {self.place}."
        )

    @property
    def fits(self) -> bool:
        """Whether one skill has room for all of it."""
        return len(self.principle) <= _LONGEST

    def parts(self) -> Iterator["Storage"]:
        """Take it apart into what one skill each has room for; nothing is left out."""
        left = self.classes
        while left:
            part = replace(self, classes=left)
            while not part.fits and len(part.classes) > 1:
                part = replace(part, classes=part.classes[:-1])
            yield part
            left = left[len(part.classes) :]

    def skill(self, evidence: list[dict[str, Any]]) -> dict[str, Any]:
        """Write it down."""
        sought = _enumerated(self.classes, "or")
        return {
            "name": self.name,
            "principle": self.principle,
            "applicability": f"when the {self.room} is searched for {sought}",
            "evidence": evidence,
        }


def learn_storage(episodes: Sequence[Episode], told: Iterable[Habit] = ()) -> list[Storage]:
    """Find what was seen in one place again and again, and mostly there.

    What is known of the home counts once more for a place where it was seen at least once.
    """
    known = {(one.room, one.object_class, place) for one in told for place in one.places}

    def is_known(room: str, cls: str, place: str) -> bool:
        return not known.isdisjoint({(room, cls, place), ("", cls, place)})

    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for episode in episodes:
        room = room_of(episode.places)
        for cls, place in _first_sightings(episode):
            seen[room, cls][place] += 1
            shown[room, cls, place][episode.id] = None
    kept: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (room, cls), places in seen.items():
        for place in list(places):
            places[place] += is_known(room, cls, place)
        place, count = max(places.items(), key=lambda item: (item[1], item[0]))
        witnesses = len(shown[room, cls, place]) + is_known(room, cls, place)
        if witnesses >= _FEWEST_SIGHTINGS and 2 * count > places.total():
            kept[room, place].append(cls)
    return [
        Storage(
            room,
            place,
            tuple(sorted(classes)),
            tuple(dict.fromkeys(n for cls in classes for n in shown[room, cls, place])),
        )
        for (room, place), classes in sorted(kept.items())
    ]


def keeps(room: str, place: str, text: str) -> tuple[str, ...]:
    """Return the classes that a skill tells to be kept in a receptacle, whatever else it says."""
    told = [
        habit.object_class
        for habit in read_habits(text)
        if place in habit.places and habit.room in {"", room}
    ]
    return tuple(dict.fromkeys(told))


def says_no_more(room: str, place: str, text: str) -> bool:
    """Tell whether every sentence of a skill says what one receptacle keeps, and only that.

    Where a sentence names a room, it has to be this one.
    """
    told = [read_habits(one.text) for block in blocks(text) for one in sentences(block)]
    return bool(told) and all(
        habits and all(one.places == (place,) and one.room in {"", room} for one in habits)
        for habits in told
    )


def _first_sightings(episode: Episode) -> list[tuple[str, str]]:
    """Return class and place of every object as it was first seen; what was carried is not new."""
    met: set[str] = set()
    found = []
    for visit in episode.visits:
        met.update(visit.placed)
        for name in sorted(visit.contents - met):
            found.append((class_of(name), visit.place))
        met |= visit.contents
    return found


def _enumerated(words: Sequence[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"

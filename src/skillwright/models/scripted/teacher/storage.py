"""Where a home keeps its things, learnt from where they were seen."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.models.scripted.analyst.episode import Episode
from skillwright.models.scripted.household import class_of, room_of
from skillwright.models.scripted.skilltext import Habit, read_habits

_FEWEST_SIGHTINGS: Final = 2
_LONGEST: Final = 280
_WITH_DOORS: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "box"})


@dataclass(frozen=True, slots=True)
class Storage:
    """What one receptacle holds.

    Attributes:
        room: The kind of room that it stands in.
        place: Its name.
        classes: What is kept there, by name.
        shown: The trajectories that show it.
    """

    room: str
    place: str
    classes: tuple[str, ...]
    shown: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the skill that tells it."""
        return f"{self.room.capitalize()} {self.place}"

    def skill(self, evidence: list[dict[str, Any]]) -> dict[str, Any]:
        """Write it down, with as many things as there is room for."""
        classes = list(self.classes)
        while len(text := self._principle(classes)) > _LONGEST and len(classes) > 1:
            classes.pop()
        return {
            "name": self.name,
            "principle": text,
            "applicability": f"when the {self.room} is searched for {_enumerated(classes, 'or')}",
            "evidence": evidence,
        }

    def _principle(self, classes: Sequence[str]) -> str:
        where = "in" if class_of(self.place) in _WITH_DOORS else "on"
        return (
            f"In this home's {self.room}, every {_enumerated(classes, 'and')} is kept "
            f"{where} {self.place}."
        )


def learn_storage(episodes: Sequence[Episode], told: Iterable[Habit] = ()) -> list[Storage]:
    """Find what was seen in one place again and again, and mostly there.

    Args:
        episodes: Games in one home.
        told: What is known of that home; what was seen at least once counts once more for it.
    """
    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for episode in episodes:
        room = room_of(episode.places)
        for cls, place in _first_sightings(episode):
            seen[room, cls][place] += 1
            shown[room, cls, place][episode.id] = None
    known = {(one.room, one.object_class, place) for one in told for place in one.places}
    kept: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (room, cls), places in seen.items():
        places.update(place for place in places if (room, cls, place) in known)
        place, count = max(places.items(), key=lambda item: (item[1], item[0]))
        witnesses = len(shown[room, cls, place]) + ((room, cls, place) in known)
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
    """Return what a skill tells to be kept in a receptacle; nothing where it names another."""
    told = [
        habit.object_class
        for habit in read_habits(text)
        if place in habit.places and habit.room in {"", room}
    ]
    return tuple(dict.fromkeys(told))


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

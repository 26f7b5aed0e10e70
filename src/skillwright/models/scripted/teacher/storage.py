"""Where a home keeps its things, learnt from where they were seen."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.models.scripted.analyst.episode import Episode
from skillwright.models.scripted.household import class_of, room_of
from skillwright.models.scripted.skilltext import read_habits

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


def learn_storage(episodes: Sequence[Episode]) -> list[Storage]:
    """Find what was seen in one place again and again, and mostly there."""
    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: defaultdict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for episode in episodes:
        room = room_of(episode.places)
        for cls, place in _first_sightings(episode):
            seen[room, cls][place] += 1
            shown[room, cls, place][episode.id] = None
    kept: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (room, cls), places in seen.items():
        place, count = max(places.items(), key=lambda item: (item[1], item[0]))
        episodes_with = len(shown[room, cls, place])
        if episodes_with >= _FEWEST_SIGHTINGS and 2 * count > places.total():
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


def with_known(one: Storage, text: str) -> Storage:
    """Add what a skill tells already of the same receptacle."""
    told = [habit.object_class for habit in read_habits(text) if one.place in habit.places]
    return Storage(one.room, one.place, tuple(sorted({*one.classes, *told})), one.shown)


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

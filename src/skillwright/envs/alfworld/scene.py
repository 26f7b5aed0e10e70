"""Scenes: furniture, what lies where, and the task that it is laid out for.

Everything is drawn here, and nothing is proved; `generate.py` does that.
"""

import random
from dataclasses import dataclass
from typing import Final

from skillwright.envs.alfworld.households import HABIT_STRENGTH, Household, rtype_of
from skillwright.envs.alfworld.rooms import Furniture, receptacle_names, sample_furniture
from skillwright.envs.alfworld.tables import (
    HOLDERS,
    LAMPS,
    LOOK,
    OPENABLE,
    PICK_TWO,
    PLACEABLE,
    ROOMS,
    SCENES_PER_ROOM,
    TRAITS,
    USES,
    Family,
)

HIDDEN: Final = 0.5
"""Chance that a wanted object lies behind a door, where the furniture allows it."""

SHUT: Final = 0.5
"""Chance that the destination has a door, where the furniture allows it."""

MISLEADING: Final = 0.5
"""Chance that an object of similar use is surely around."""

ONE_MORE: Final = 0.25
"""Chance of one more object of a class."""

FULLNESS: Final = (0.4, 0.6, 0.8)
"""A scene has one of these shares of the object classes that floor plans have."""

# Tasks drawn until one is as wished; after that, the best of them does.
_TASK_DRAWS: Final = 12
_ALL_WISHES: Final = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task is about, in classes; ``target`` or ``toggle`` is "" where there is none."""

    obj: str
    target: str
    toggle: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A laid-out room."""

    furniture: Furniture  # receptacle class -> how many
    # Every object as (class, surface name of its receptacle), shuffled
    placements: tuple[tuple[str, str], ...]
    wanted: Wanted  # the task


def sample_scene(
    family: Family, room: str, home: Household | None, rng: random.Random
) -> Scene | None:
    """Draw a scene for a task, or ``None`` where the furniture drawn seems to allow none."""
    furniture = home.furniture[room] if home else sample_furniture(room, rng)
    stage = _Stage(family, room, furniture, home, rng)
    wanted = stage.choose()
    if wanted is None:
        return None
    stage.place_wanted(wanted)
    stage.place_lamps(wanted.toggle)
    stage.place_others(wanted.obj)
    rng.shuffle(stage.placements)
    return Scene(furniture, tuple(stage.placements), wanted)


class _Stage:
    """A scene in the making. Its methods draw from one stream, so their order matters."""

    def __init__(
        self,
        family: Family,
        room: str,
        furniture: Furniture,
        home: Household | None,
        rng: random.Random,
    ) -> None:
        self.placements: list[tuple[str, str]] = []
        self._family = family
        self._seen = ROOMS[room].objects
        self._habits = home.habits[room] if home else None
        self._rng = rng
        self._pieces = {rtype: receptacle_names({rtype: n}) for rtype, n in furniture.items()}
        self._hidden = rng.random() < HIDDEN
        self._shut = rng.random() < SHUT

    # -- the task

    def choose(self) -> Wanted | None:
        """Choose what the task is about, with doors as they are wished for, if that can be."""
        found, best = None, -1
        for _ in range(_TASK_DRAWS):
            obj = self._draw_object()
            targets = self._targets(obj)
            target = self._rng.choice(targets) if targets else ""
            starts = self._starts(obj, target)
            wishes = self._wishes_met(starts, target)
            if targets and len(starts) >= self._starts_needed and wishes > best:
                found, best = (obj, target), wishes
            if best == _ALL_WISHES:
                break
        if found is None:
            return None
        return Wanted(*found, self._draw_lamp() if self._family.task_type == LOOK else "")

    def _draw_object(self) -> str:
        able = TRAITS.get(self._family.trait, PLACEABLE)
        return self._draw_seen([otype for otype in self._seen if otype in able])

    def _draw_lamp(self) -> str:
        return self._draw_seen([otype for otype in self._seen if otype in LAMPS])

    def _draw_seen(self, otypes: list[str]) -> str:
        """Draw a class as often as floor plans have it."""
        return self._rng.choices(otypes, [self._seen[otype] for otype in otypes])[0]

    def _targets(self, obj: str) -> list[str]:
        if self._family.task_type == LOOK:
            return [""]
        holders = HOLDERS[obj] - {self._family.appliance}
        return [rtype for rtype in self._pieces if rtype in holders]

    @property
    def _starts_needed(self) -> int:
        two = self._family.task_type == PICK_TWO
        return 2 if two and self._habits is None else 1

    def _starts(self, obj: str, target: str) -> list[str]:
        """List where a wanted object may start; in a household, only where it is kept."""
        places = self._places(obj, self._barred(target))
        if self._habits is None:
            return places
        return [place for place in places if place == self._habits.get(obj)]

    def _barred(self, target: str) -> str:
        """Return the class that must not hold a wanted object at the start."""
        return "" if self._family.verb else target

    def _wishes_met(self, starts: list[str], target: str) -> int:
        """Rank a task; where not both wishes can be met, what hides the object counts more."""
        hidden = any(_has_door(place) == self._hidden for place in starts)
        shut = not target or (target in OPENABLE) == self._shut
        return 2 * hidden + shut

    # -- what lies where

    def place_wanted(self, wanted: Wanted) -> None:
        """Place as many wanted objects as the task needs, sometimes one more."""
        barred = self._barred(wanted.target)
        self._put(wanted.obj, barred, hidden=self._hidden)
        if self._family.task_type == PICK_TWO:
            self._put(wanted.obj, barred, hidden=self._rng.random() < HIDDEN)
        if self._rng.random() < ONE_MORE:
            self._put(wanted.obj, barred, hidden=self._hidden)

    def place_lamps(self, needed: str) -> None:
        """Place the lamp that the task needs, and others as often as floor plans have them."""
        for otype, scenes in self._seen.items():
            if otype in LAMPS and (otype == needed or self._occurs(scenes)):
                self._put(otype)

    def place_others(self, wanted: str) -> None:
        """Place everything else, some of it easily mistaken for what is wanted."""
        others = {otype: n for otype, n in self._seen.items() if otype not in {wanted, *LAMPS}}
        use = next((use for use in USES if wanted in use), frozenset())
        alike = [otype for otype in others if otype in use]
        misleading = ""
        if alike and self._rng.random() < MISLEADING:
            misleading = self._rng.choice(alike)
        share = self._rng.choice(FULLNESS)
        for otype, scenes in others.items():
            if otype == misleading or self._occurs(scenes * share):
                self._put(otype)
                if self._rng.random() < ONE_MORE:
                    self._put(otype)

    def _occurs(self, scenes: float) -> bool:
        return self._rng.random() * SCENES_PER_ROOM < scenes

    def _put(self, otype: str, barred: str = "", *, hidden: bool | None = None) -> None:
        """Put an object where it is kept, or else anywhere apart from others of its class."""
        kept = (self._habits or {}).get(otype)
        if kept and (otype in LAMPS or self._rng.random() < HABIT_STRENGTH):
            self.placements.append((otype, kept))
            return
        places = self._places(otype, barred)
        free = [place for place in places if (otype, place) not in self.placements]
        wished = [place for place in free if hidden is None or _has_door(place) == hidden]
        if places:
            self.placements.append((otype, self._rng.choice(wished or free or places)))

    def _places(self, otype: str, barred: str = "") -> list[str]:
        holders = HOLDERS[otype]
        return [
            place
            for rtype, names in self._pieces.items()
            if rtype in holders and rtype != barred
            for place in names
        ]


def _has_door(place: str) -> bool:
    return rtype_of(place) in OPENABLE

"""Our own games: seeded, proven solvable, and in one split only.

A game is a function of its arguments. Its content decides its split: scenes are drawn until a
digest falls into the residues of the split, so no world occurs in two splits, whatever the seeds.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from skillwright.core import ContractError, DataError, Task, did_you_mean
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.worlds.alfworld.households import (
    HABIT_STRENGTH,
    START,
    Furniture,
    Household,
    encoded_id,
    furnish,
    keeps_hidden,
    receptacle_names,
    rtype_of,
    sample_furniture,
    surface_name,
)
from skillwright.worlds.alfworld.households import household as find_household
from skillwright.worlds.alfworld.planner import plan
from skillwright.worlds.alfworld.problem import (
    Problem,
    Receptacle,
    Thing,
    describe_goal,
    task_type_goal,
)
from skillwright.worlds.alfworld.tables import (
    ALL_TASK_TYPES,
    CAN_CONTAIN,
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
    TaskType,
)

# Scenes: furniture, the places of objects, and the task. Drawn here, without proof.


HIDDEN: Final = 0.5
"""Probability that a wanted object is behind a door, if the furniture allows it."""

SHUT: Final = 0.5
"""Probability that the destination has a door, if the furniture allows it."""

MISLEADING: Final = 0.5
"""Probability that an object of similar use is present."""

ONE_MORE: Final = 0.25
"""Probability of one more object of a class."""

FULLNESS: Final = (0.4, 0.6, 0.8)
"""Shares of the floor plans' object classes, one of which a scene has."""

# Number of tasks drawn until one meets the wishes; then the best of them is used.
_TASK_DRAWS: Final = 12
_ALL_WISHES: Final = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """The classes of a task; ``target`` or ``toggle`` is "" if there is none."""

    obj: str
    target: str
    toggle: str


@dataclass(frozen=True, slots=True)
class Scene:
    """A drawn room with its task."""

    furniture: Furniture  # receptacle class -> number
    # Every object as (class, surface name of its receptacle), shuffled
    placements: tuple[tuple[str, str], ...]
    wanted: Wanted


def sample_scene(
    task_type: TaskType, room: str, home: Household | None, rng: random.Random
) -> Scene | None:
    """Draw a scene for a task, or return ``None`` if its furniture seems to allow none."""
    furniture = home.furniture[room] if home else sample_furniture(room, rng)
    stage = _Stage(task_type, room, furniture, home, rng)
    wanted = stage.choose()
    if wanted is None:
        return None
    stage.place_wanted(wanted)
    stage.place_lamps(wanted.toggle)
    stage.place_others(wanted.obj)
    rng.shuffle(stage.placements)
    return Scene(furniture, tuple(stage.placements), wanted)


class _Stage:
    """A scene being drawn. Its methods share one generator, so their order matters."""

    def __init__(
        self,
        task_type: TaskType,
        room: str,
        furniture: Furniture,
        home: Household | None,
        rng: random.Random,
    ) -> None:
        self.placements: list[tuple[str, str]] = []
        self._task_type = task_type
        self._seen = ROOMS[room].objects
        self._habits = home.habits[room] if home else None
        self._rng = rng
        self._pieces = {rtype: receptacle_names({rtype: n}) for rtype, n in furniture.items()}
        self._hidden = rng.random() < HIDDEN
        self._shut = rng.random() < SHUT

    def choose(self) -> Wanted | None:
        """Draw the task's classes, best of several draws; ``None`` if the furniture allows none."""
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
        return Wanted(*found, self._draw_lamp() if self._task_type.name == LOOK else "")

    def _draw_object(self) -> str:
        able = TRAITS.get(self._task_type.trait, PLACEABLE)
        return self._draw_seen([otype for otype in self._seen if otype in able])

    def _draw_lamp(self) -> str:
        return self._draw_seen([otype for otype in self._seen if otype in LAMPS])

    def _draw_seen(self, otypes: list[str]) -> str:
        """Draw a class with its frequency in floor plans."""
        return self._rng.choices(otypes, [self._seen[otype] for otype in otypes])[0]

    def _targets(self, obj: str) -> list[str]:
        if self._task_type.name == LOOK:
            return [""]
        holders = HOLDERS[obj] - {self._task_type.appliance}
        return [rtype for rtype in self._pieces if rtype in holders]

    @property
    def _starts_needed(self) -> int:
        two = self._task_type.name == PICK_TWO
        return 2 if two and self._habits is None else 1

    def _starts(self, obj: str, target: str) -> list[str]:
        """List where a wanted object may start; in a household, only where it is kept."""
        places = self._places(obj, self._barred(target))
        if self._habits is None:
            return places
        return [place for place in places if place == self._habits.get(obj)]

    def _barred(self, target: str) -> str:
        """Return the receptacle class that must not hold a wanted object at the start, or ""."""
        return "" if self._task_type.verb else target

    def _wishes_met(self, starts: list[str], target: str) -> int:
        """Score a task by the drawn doors: 2 if its object may start as drawn, 1 for the target."""
        hidden = any(_has_door(place) == self._hidden for place in starts)
        shut = not target or (target in OPENABLE) == self._shut
        return 2 * hidden + shut

    def place_wanted(self, wanted: Wanted) -> None:
        """Place as many wanted objects as the task needs, sometimes one more."""
        barred = self._barred(wanted.target)
        self._put(wanted.obj, barred, hidden=self._hidden)
        if self._task_type.name == PICK_TWO:
            self._put(wanted.obj, barred, hidden=self._rng.random() < HIDDEN)
        if self._rng.random() < ONE_MORE:
            self._put(wanted.obj, barred, hidden=self._hidden)

    def place_lamps(self, needed: str) -> None:
        """Place the needed lamp, and others with their frequency in floor plans."""
        for otype, scenes in self._seen.items():
            if otype in LAMPS and (otype == needed or self._occurs(scenes)):
                self._put(otype)

    def place_others(self, wanted: str) -> None:
        """Place everything else, including objects similar to the wanted one."""
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
        """Put an object where it is kept, or anywhere apart from others of its class."""
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


GENERATOR_VERSION: Final = 1
"""Increase this whenever the same arguments would give another game."""

STEP_LIMIT: Final = 50

SPLITS: Final[Mapping[str, range]] = {"train": range(4), "val": range(4, 7), "test": range(7, 10)}
"""Split -> last decimal digits of the content digests of its games."""

HOUSEHOLD_TURNS: Final[Mapping[str, int]] = {
    "pick_and_place_simple": 9,
    LOOK: 9,
    "pick_clean_then_place_in_recep": 13,
    "pick_heat_then_place_in_recep": 13,
    "pick_cool_then_place_in_recep": 12,
    PICK_TWO: 16,
}
"""Task type -> turns in games of `household_tasks`: 1.5 times what the `Searcher` needs on average
with the habits in its skill (5.7, 6.1, 8.6, 8.4, 7.9 and 10.5; 80 games each). It then wins 92%
with them and 10% without."""

# Indexes tried in a home before the next one; most homes hide something for every task type.
_ASKED: Final = 7
_HOMES_ASKED: Final = 9

# Far more than needed: about one scene in three falls into a split.
_DRAWS: Final = 1000

_TRAITS_OF: Final = {
    otype: frozenset(trait for trait, otypes in TRAITS.items() if otype in otypes)
    | (frozenset() if otype in LAMPS else frozenset({"pickupable"}))
    for otype in PLACEABLE | LAMPS
}


def generate_problem(
    split: str, index: int, *, seed: int = 0, household: int | None = None
) -> Problem:
    """Generate one game.

    Args:
        split: ``train``, ``val`` or ``test``.
        index: From 0. The task type is ``index % 6``; a task type's kinds of room alternate.
        seed: A different seed gives different games.
        household: Number of the home; ``None`` for a home of its own.

    Returns:
        A game that its walkthrough solves within `STEP_LIMIT` commands. Its goal does not hold at
        the start; outside of households the two objects of a pick-two game lie in different places.

    Raises:
        DataError: There is no such split, or a number is negative.
    """
    if split not in SPLITS:
        raise DataError(f"no split {split!r} of generated houses. {did_you_mean(split, SPLITS)}")
    if index < 0:
        raise DataError(f"there is no game {index}; games are numbered from 0")
    return _generate(split, index, seed, household)


def generated_tasks(
    split: str, count: int, *, seed: int = 0, household: int | None = None, start: int = 0
) -> list[Task]:
    """List ``count`` games as tasks, from number ``start`` on.

    Ids are equal only if split, index, seed and household are. ``extras["generated"]`` has the
    arguments of `generate_problem`.

    Raises:
        DataError: There is no such split, or a number is negative.
    """
    return [_task(split, index, seed, household) for index in range(start, start + count)]


def household_tasks(
    split: str, count: int, *, homes: Sequence[int], seed: int = 0, start: int = 0
) -> list[Task]:
    """List ``count`` games spread over homes, in which knowledge of the home helps.

    The wanted object is behind a door, and at least three other doors could hide it
    (`keeps_hidden`). The turn limit, `HOUSEHOLD_TURNS`, is too low for opening them all.

    Args:
        split: ``train``, ``val`` or ``test``.
        count: Number of games.
        homes: Numbers of households; six consecutive games, one of each task type, share a home,
            unless it hides nothing for a task type: then the next home is used.
        seed: A different seed gives different games.
        start: Number of the first game.

    Raises:
        DataError: ``homes`` is empty or hides nothing, there is no such split, or a number is
            negative.
    """
    if not homes:
        raise DataError("household_tasks() was given no homes; name at least one")
    return [_telling(split, number, tuple(homes), seed) for number in range(start, start + count)]


def content_digest(problem: Problem) -> str:
    """Return the digest of a world without its task; it decides a generated game's split.

    Two objects of a class are interchangeable.
    """
    things = [(thing.otype, place) for thing in problem.things for place in thing.receptacles]
    return _digest((piece.name for piece in problem.receptacles), things)


def _task(split: str, index: int, seed: int, household: int | None) -> Task:
    problem = generate_problem(split, index, seed=seed, household=household)
    group = "" if household is None else f"-h{household}"
    stream = f"-s{seed}" if seed else ""
    arguments = {"split": split, "index": index, "seed": seed, "household": household}
    return Task(
        id=f"house{group}{stream}-{split}-{index:04}",
        env="alfworld",
        extras={"generated": arguments},
        task_type=problem.task_type,
        description=problem.goal_text,
        split=split,
    )


def _telling(split: str, number: int, homes: tuple[int, ...], seed: int) -> Task:
    """Return the first game of a slot in which knowledge of the home helps."""
    if number < 0:
        raise DataError(f"there is no game {number}; games are numbered from 0")
    slot, kind = divmod(number, len(ALL_TASK_TYPES))
    for asked in range(_ASKED * _HOMES_ASKED):
        home = homes[(slot + asked // _ASKED) % len(homes)]
        # No two slots share an index, so that no game occurs twice.
        turn = slot * _ASKED * _HOMES_ASKED + asked
        index = turn * len(ALL_TASK_TYPES) + kind
        problem = generate_problem(split, index, seed=seed, household=home)
        room = _room(index)
        if keeps_hidden(find_household(home), room, problem.params["object"]):
            task = _task(split, index, seed, home)
            limit = {"max_turns": HOUSEHOLD_TURNS[task.task_type]}
            return replace(task, extras={**task.extras, **limit})
    raise DataError(
        f"homes {homes[:5]} keep nothing hidden for {ALL_TASK_TYPES[kind].name}; name more homes"
    )


def _room(index: int) -> str:
    rooms = ALL_TASK_TYPES[index % len(ALL_TASK_TYPES)].rooms
    return rooms[index // len(ALL_TASK_TYPES) % len(rooms)]


# Cached, because every attempt at a task requests its game again.
@lru_cache(maxsize=2048)
def _generate(split: str, index: int, seed: int, household: int | None) -> Problem:
    task_type = ALL_TASK_TYPES[index % len(ALL_TASK_TYPES)]
    room = _room(index)
    home = None if household is None else find_household(household)
    home_name = "any" if household is None else household
    rng = random.Random(derive_seed("alfworld-house", split, index, seed, home_name))
    for _ in range(_DRAWS):
        scene = sample_scene(task_type, room, home, rng)
        if scene is None or not _belongs(scene, split):
            continue
        problem = _problem(scene, task_type, rng)
        walkthrough = plan(problem)
        if 0 < len(walkthrough) <= STEP_LIMIT:
            return replace(problem, walkthrough=tuple(walkthrough))
    raise ContractError(
        f"no game {index} of split {split!r} (seed {seed}, household {household}) in {_DRAWS} "
        f"draws: {task_type.name} in a {room}. This is a fault of the generator; please report it"
    )


def _belongs(scene: Scene, split: str) -> bool:
    content = _digest(receptacle_names(scene.furniture), scene.placements)
    return int(content[:12], 16) % 10 in SPLITS[split]


def _digest(receptacles: Iterable[str], placements: Iterable[tuple[str, str]]) -> str:
    return digest([sorted(receptacles), sorted(placements)])


def _problem(scene: Scene, task_type: TaskType, rng: random.Random) -> Problem:
    wanted = scene.wanted
    receptacles = furnish(scene.furniture)
    otypes = {otype for otype, _ in scene.placements}
    classes = {"obj": wanted.obj, "target": wanted.target, "toggle": wanted.toggle}
    goal = task_type_goal(task_type.name, **classes)
    return Problem(
        receptacles=receptacles,
        things=_things(scene, receptacles),
        start=START,
        can_contain={
            rtype: CAN_CONTAIN[rtype] & otypes
            for rtype in scene.furniture
            if CAN_CONTAIN[rtype] & otypes
        },
        goal=goal,
        goal_text=rng.choice(task_type.templates).format(**classes),
        task_type=task_type.name,
        params=describe_goal(goal)[1],
    )


def _things(scene: Scene, receptacles: tuple[Receptacle, ...]) -> tuple[Thing, ...]:
    locations = {piece.name: piece.location for piece in receptacles}
    counts = Counter(otype for otype, _ in scene.placements)
    seen: Counter[str] = Counter()
    things = []
    for otype, place in scene.placements:
        seen[otype] += 1
        thing = Thing(
            name=surface_name(otype, seen[otype], counts[otype]),
            sort_key=encoded_id(otype, seen[otype]),
            otype=otype,
            receptacles=(place,),
            locations=frozenset({locations[place]}),
            traits=_TRAITS_OF[otype],
        )
        things.append(thing)
    return tuple(sorted(things, key=lambda thing: thing.sort_key))

"""Our own games: seeded, proven winnable, and never the same in two splits.

A game is a function of its arguments. Its split is decided by its content: scenes are drawn until
one's digest falls into the residues of the split, so that no world can occur in two of them,
whatever the seeds.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from skillwright.core import ContractError, DataError, Task, did_you_mean
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.envs.alfworld.goal import describe_goal, family_goal
from skillwright.envs.alfworld.households import household as find_household
from skillwright.envs.alfworld.planner import plan
from skillwright.envs.alfworld.problem import Problem, Receptacle, Thing
from skillwright.envs.alfworld.rooms import (
    START,
    encoded_id,
    furnish,
    receptacle_names,
    surface_name,
)
from skillwright.envs.alfworld.scene import Scene, sample_scene
from skillwright.envs.alfworld.tables import CAN_CONTAIN, FAMILIES, LAMPS, PLACEABLE, TRAITS, Family

GENERATOR_VERSION: Final = 1
"""Rises whenever the same arguments would give another game."""

STEP_LIMIT: Final = 50

SPLITS: Final[Mapping[str, range]] = {
    "train": range(4),
    "val": range(4, 7),
    "test": range(7, 10),
}
"""Split -> the last decimal digits of the content digests of its games."""

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
        index: From 0. The family is ``index % 6``, so six games in a row are one of each, and the
            family's kinds of room take turns.
        seed: A different seed gives different games.
        household: The home that the game is set in; ``None`` for a home of its own.

    Returns:
        A game that its walkthrough wins within `STEP_LIMIT` commands. Its goal never holds at the
        start, and for a pick-two game of no household the two objects lie in different places.

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

    Their ids are equal only if split, index, seed and household are. ``extras["generated"]`` holds
    the arguments of `generate_problem`.

    Raises:
        DataError: There is no such split, or a number is negative.
    """
    return [_task(split, index, seed, household) for index in range(start, start + count)]


def content_digest(problem: Problem) -> str:
    """Return the digest of what stands and lies where: equal worlds are equal, whatever the task.

    Two objects of a class are interchangeable. For a generated game, it decides the split.
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


# Cached, because every attempt at a task asks for its game again.
@lru_cache(maxsize=2048)
def _generate(split: str, index: int, seed: int, household: int | None) -> Problem:
    family = FAMILIES[index % len(FAMILIES)]
    room = family.rooms[index // len(FAMILIES) % len(family.rooms)]
    home = None if household is None else find_household(household)
    home_name = "any" if household is None else household
    rng = random.Random(derive_seed("alfworld-house", split, index, seed, home_name))
    for _ in range(_DRAWS):
        scene = sample_scene(family, room, home, rng)
        if scene is None or not _belongs(scene, split):
            continue
        problem = _problem(scene, family, rng)
        walkthrough = plan(problem)
        if 0 < len(walkthrough) <= STEP_LIMIT:
            return replace(problem, walkthrough=tuple(walkthrough))
    raise ContractError(
        f"no game {index} of split {split!r} (seed {seed}, household {household}) in {_DRAWS} "
        f"draws: {family.task_type} in a {room}. This is a fault of the generator; please report it"
    )


def _belongs(scene: Scene, split: str) -> bool:
    content = _digest(receptacle_names(scene.furniture), scene.placements)
    return int(content[:12], 16) % 10 in SPLITS[split]


def _digest(receptacles: Iterable[str], placements: Iterable[tuple[str, str]]) -> str:
    return digest([sorted(receptacles), sorted(placements)])


def _problem(scene: Scene, family: Family, rng: random.Random) -> Problem:
    wanted = scene.wanted
    receptacles = furnish(scene.furniture)
    otypes = {otype for otype, _ in scene.placements}
    classes = {"obj": wanted.obj, "target": wanted.target, "toggle": wanted.toggle}
    goal = family_goal(family.task_type, **classes)
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
        goal_text=rng.choice(family.templates).format(**classes),
        task_type=family.task_type,
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

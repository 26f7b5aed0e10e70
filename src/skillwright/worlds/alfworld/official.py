"""The official ALFWorld games, in the original's download, as tasks.

``json_2.1.1/{train,valid_seen,valid_unseen}/<task>-<object>-...-<scene>/<trial>/game.tw-pddl``.
The games are not part of this package; ALFWorld's own ``alfworld-download`` fetches them.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.jsonio import read_text
from skillwright.worlds.alfworld.households import encoded_id
from skillwright.worlds.alfworld.pddl import read_problem
from skillwright.worlds.alfworld.problem import (
    AGENT,
    PREDICATES,
    TASK_TYPES,
    Goal,
    Problem,
    Receptacle,
    Thing,
)
from skillwright.worlds.alfworld.tables import TYPE_NAMES

# A game file is JSON with a PDDL problem and a text grammar. Its PDDL domain is not read (`World`
# has the rules), and of the grammar only the task sentence and the dialect.


_TASK: Final = re.compile(r'Your task is to: ((?:[^"\\]|\\.)*)"')
_MOVE_TEMPLATE: Final = "move {o} to {r}"


@dataclass(frozen=True, slots=True)
class GameFile:
    """A game file whose PDDL is still unread."""

    problem: str  # PDDL text of the problem
    goal_text: str  # the task sentence without its final period
    dialect: str  # `"0.4"` or `"2.1.1"`
    solvable: bool | None  # whether a planner solved it; `None` if not tried
    walkthrough: tuple[str, ...]  # commands that solve it, or empty


def read_game_file(path: Path) -> GameFile:
    """Read the outer layer of a game file."""
    game = read_json(path, "game file")
    where = f"game file {str(path)!r}"
    grammar = _field(game, "grammar", (str,), where)
    task = _TASK.search(grammar)
    if task is None:
        raise DataError(f"{where}: the grammar has no sentence 'Your task is to: ...'")
    walkthrough = game.get("walkthrough") or []
    if not isinstance(walkthrough, list) or not all(isinstance(s, str) for s in walkthrough):
        raise DataError(f"{where}: 'walkthrough' must be a list of commands or null")
    return GameFile(
        problem=_field(game, "pddl_problem", (str,), where),
        goal_text=task[1].replace('\\"', '"').removesuffix("."),
        dialect="0.4" if _MOVE_TEMPLATE in grammar else "2.1.1",
        solvable=_field({"solvable": None, **game}, "solvable", (bool, type(None)), where),
        walkthrough=tuple(walkthrough),
    )


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    text = read_text(path, what)
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DataError(
            f"{what} {str(path)!r}, line {error.lineno} column {error.colno}: {error.msg}. "
            "Fetch the file again if it was cut short."
        ) from error
    if not isinstance(found, dict):
        raise DataError(f"{what} {str(path)!r} must hold one JSON object")
    return found


def _field(game: Mapping[str, Any], key: str, types: tuple[type, ...], where: str) -> Any:
    if key not in game:
        raise DataError(f"{where} has no key {key!r}. It has: {', '.join(sorted(game))}.")
    if not isinstance(game[key], types):
        wanted = "text" if str in types else "true, false or null"
        raise DataError(f"{where}: {key!r} must be {wanted}, not {type(game[key]).__name__}")
    return game[key]


def load_game(path: str | Path) -> Problem:
    """Read an official ``game.tw-pddl`` file.

    Raises:
        DataError: The file is missing or malformed; the message gives file, line and column.
    """
    game = read_game_file(Path(path))
    return read_problem(
        game.problem,
        game.goal_text,
        dialect=game.dialect,
        walkthrough=game.walkthrough,
        source=f"game file {str(path)!r}, in its pddl_problem",
    )


DATA_VARIABLE: Final = "ALFWORLD_DATA"
_RELEASE: Final = "json_2.1.1"
_GAME: Final = "game.tw-pddl"

SPLITS: Final[Mapping[str, str]] = {"train": "train", "valid_seen": "val", "valid_unseen": "test"}
"""Folder of a split -> our name of the split."""

# The original's text games leave out tasks with a movable receptacle or a sliced object.
_LEFT_OUT: Final = ("movable", "Sliced")


def official_tasks(split: str, root: str | Path | None = None) -> list[Task]:
    """List the official games of a split as tasks, sorted by id.

    As in the original, movable receptacles, sliced objects, games that no planner solved, and other
    task types are left out. The complete data has 3,553 games in ``train``, 140 in ``valid_seen``
    and 134 in ``valid_unseen``. Only the outer layer of a game file is read.

    Args:
        split: ``train``, ``valid_seen`` or ``valid_unseen``; its tasks are of the split ``train``,
            ``val`` and ``test``.
        root: The folder ``json_2.1.1`` or its parent; ``$ALFWORLD_DATA`` by default.

    Returns:
        Tasks whose id is the game's folder relative to ``json_2.1.1``.

    Raises:
        DataError: There is no such split, the folder is missing or empty, or a file is malformed.
    """
    if split not in SPLITS:
        raise DataError(f"no split {split!r} of ALFWorld. {did_you_mean(split, SPLITS)}")
    release = _release_folder(root)
    games = sorted((release / split).glob(f"*/*/{_GAME}"), key=lambda path: _id(path, release))
    if not games:
        raise DataError(f"{str(release / split)!r} holds no games. {_HOW_TO_GET}")
    tasks = (_task(game, release) for game in games)
    return [task for task in tasks if task is not None]


def game_item(row: Mapping[str, Any], root: str | Path | None = None) -> dict[str, Any]:
    """Convert a row of SkillOpt's split files to a task."""
    named = row["gamefile"]
    if not isinstance(named, str) or not named:
        raise DataError(f"row {row.get('id')!r}: 'gamefile' is {named!r}; it is a game's path")
    folder = Path(root or os.environ.get(DATA_VARIABLE, "")).expanduser()
    path = folder / Path(named).expanduser()
    if not path.is_file():
        raise DataError(f"row {row.get('id')!r}: there is no game {str(path)!r}. {_HOW_TO_GET}")
    place = path.parent.as_posix().rpartition(f"{_RELEASE}/")[2]
    return {
        "id": str(row.get("id") or place),
        "task_type": str(row.get("task_type") or _task_type(path)),
        "description": read_game_file(path).goal_text,
        "game_file": str(path),
    }


_HOW_TO_GET: Final = (
    f"Fetch them with 'pip install alfworld' and 'alfworld-download', then set {DATA_VARIABLE} to "
    f"the folder that holds {_RELEASE!r}, or name that folder."
)


def _release_folder(root: str | Path | None) -> Path:
    named = os.environ.get(DATA_VARIABLE, "") if root is None else root
    if not named:
        raise DataError(f"no folder of ALFWorld games is named. {_HOW_TO_GET}")
    folder = Path(named).expanduser()
    found = folder / _RELEASE if (folder / _RELEASE).is_dir() else folder
    if not found.is_dir():
        raise DataError(f"there is no folder {str(folder)!r} of ALFWorld games. {_HOW_TO_GET}")
    return found


def _id(game: Path, release: Path) -> str:
    return game.parent.relative_to(release).as_posix()


def _task(path: Path, release: Path) -> Task | None:
    """Return a game file's task; ``None`` for unsupported types and games not known as solvable."""
    task_id = _id(path, release)
    if any(word in task_id for word in _LEFT_OUT):
        return None
    task_type = _task_type(path)
    if task_type not in TASK_TYPES:
        return None
    game = read_game_file(path)
    if game.solvable is not True:
        return None
    return Task(
        id=task_id,
        env="alfworld",
        extras={"game_file": str(path)},
        task_type=task_type,
        description=game.goal_text,
        split=SPLITS[PurePosixPath(task_id).parts[0]],
    )


def _task_type(game: Path) -> str:
    """Read the task type from the annotation next to the game, or else from the folder's name."""
    annotation = game.with_name("traj_data.json")
    if annotation.is_file():
        found = read_json(annotation, "trajectory file").get("task_type")
        if isinstance(found, str):
            return found
    return game.parent.parent.name.partition("-")[0]


# Our games as official game files, for the public engine. The domain and the grammar are upstream
# texts; callers take them from an installed ``alfworld``.


_SENTENCE: Final = re.compile(r'Your task is to: [^"]*')

# The domain mentions these types, so the planner of the public engine needs their declaration.
_RTYPES_OF_THE_DOMAIN: Final = frozenset({"sinkbasin", "microwave", "fridge"})
_OTYPES_OF_THE_DOMAIN: Final = frozenset({"knife", "butterknife"})

_AGENT_ID: Final = "agent1"

_PREDICATES: Final = {name.lower(): name for name in PREDICATES}


def to_game_json(problem: Problem, domain: str, grammar: str) -> dict[str, Any]:
    """Convert a game to the official JSON object with five keys.

    Args:
        problem: The game.
        domain: The upstream PDDL domain.
        grammar: The upstream text grammar of the problem's dialect; its task sentence is replaced.

    Returns:
        ``pddl_domain``, ``grammar``, ``pddl_problem``, ``solvable`` (true with a known walkthrough,
        else null: not tried) and ``walkthrough``.

    Raises:
        DataError: The grammar has no task sentence.
    """
    sentence = f"Your task is to: {problem.goal_text}."
    grammar, replaced = _SENTENCE.subn(lambda _: sentence, grammar)
    if not replaced:
        raise DataError(
            "the grammar has no 'Your task is to: ...' to replace; "
            "hand in the text grammar of an installed alfworld package"
        )
    return {
        "pddl_domain": domain,
        "grammar": grammar,
        "pddl_problem": problem_to_pddl(problem),
        "solvable": True if problem.walkthrough else None,
        "walkthrough": list(problem.walkthrough) or None,
    }


def problem_to_pddl(problem: Problem) -> str:
    """Write a game as a PDDL problem of the household domain (alfworld/alfworld).

    Reading a generated game back gives an equal problem.
    """
    ids = {
        AGENT: _AGENT_ID,
        **_location_ids(problem),
        **{place.name: place.sort_key for place in problem.receptacles},
        **{thing.name: thing.sort_key for thing in problem.things},
    }
    lines = [
        "(define (problem p)",
        "(:domain alfred)",
        "(:objects",
        *(f"{name} - {kind}" for name, kind in _declarations(problem, ids)),
        ")",
        "(:init",
        "(= (total-cost) 0)",
        *(f"({' '.join(fact)})" for fact in _facts(problem, ids)),
        ")",
        f"(:goal {_goal(problem.goal, ids)})",
        "(:metric minimize (total-cost))",
        ")",
    ]
    return "\n".join(lines)


def _location_ids(problem: Problem) -> dict[str, str]:
    """Return, for each location, an id that is read back as its name."""
    names = {problem.start, *(place.location for place in problem.receptacles)}
    names.update(location for thing in problem.things for location in thing.locations)
    numbers = {name: int(name.rpartition(" ")[2]) for name in names if " " in name}
    ids = {}
    for name in sorted(names - {""}):
        cls = name.rpartition(" ")[0]
        highest = max((n for other, n in numbers.items() if other.startswith(f"{cls} ")), default=0)
        # An id without a number is its own name.
        ids[name] = encoded_id(cls, highest + 1 - numbers[name]) if cls else name
    return ids


def _declarations(problem: Problem, ids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield ids[AGENT], "agent"
    for location in _location_ids(problem):
        yield ids[location], "location"
    for place in problem.receptacles:
        yield place.sort_key, "receptacle"
    for thing in problem.things:
        yield thing.sort_key, "object"
    rtypes = {place.rtype for place in problem.receptacles} | problem.can_contain.keys()
    for rtype in sorted((rtypes | _RTYPES_OF_THE_DOMAIN) - {""}):
        yield _type(rtype), "rtype"
    otypes = {thing.otype for thing in problem.things}.union(*problem.can_contain.values())
    for otype in sorted((otypes | _OTYPES_OF_THE_DOMAIN) - {""}):
        yield _type(otype), "otype"


def _facts(problem: Problem, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    yield "atLocation", ids[AGENT], ids[problem.start]
    if problem.held:
        yield "holds", ids[AGENT], ids[problem.held]
        yield "holdsAny", ids[AGENT]
    for place in problem.receptacles:
        yield from _facts_of_receptacle(place, ids)
    for rtype in sorted(problem.can_contain):
        for otype in sorted(problem.can_contain[rtype]):
            yield "canContain", _type(rtype), _type(otype)
    for thing in problem.things:
        yield from _facts_of_thing(thing, ids)


def _facts_of_receptacle(place: Receptacle, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    name = place.sort_key
    if place.location:
        yield "receptacleAtLocation", name, ids[place.location]
    if place.rtype:
        yield "receptacleType", name, _type(place.rtype)
    if place.openable:
        yield "openable", name
    if place.opened:
        yield "opened", name


def _facts_of_thing(thing: Thing, ids: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    name = thing.sort_key
    if thing.otype:
        yield "objectType", name, _type(thing.otype)
    for place in thing.receptacles:
        yield "inReceptacle", name, ids[place]
    for location in sorted(thing.locations):
        yield "objectAtLocation", name, ids[location]
    for trait in sorted(thing.traits):
        yield "isReceptacleObject" if trait == "receptacle" else trait, name
    for inner in thing.inner:
        yield "inReceptacleObject", ids[inner], name
    for state in sorted(thing.states):
        yield f"is{state.capitalize()}", name


def _goal(goal: Goal, ids: Mapping[str, str]) -> str:
    match goal:
        case ("atom", "objecttype" | "receptacletype" as predicate, term, cls):
            return f"({_PREDICATES[predicate]} {ids.get(term, term)} {_type(cls)})"
        case ("atom", predicate, *terms):
            return f"({' '.join([_PREDICATES[predicate], *(ids.get(t, t) for t in terms)])})"
        case ("=", one, other):
            return f"(= {ids.get(one, one)} {ids.get(other, other)})"
        case ("exists", variables, body):
            declared = " ".join(f"{variable} - {kind}" for variable, kind in variables)
            return f"(exists ({declared}) {_goal(body, ids)})"
        case (connective, *parts):
            return f"({' '.join([connective, *(_goal(part, ids) for part in parts)])})"
    raise DataError(f"no goal expression: {goal!r}")


def _type(cls: str) -> str:
    return TYPE_NAMES.get(cls, f"{cls}Type")

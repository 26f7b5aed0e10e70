"""The official ALFWorld games, in the original's download, as tasks.

``json_2.1.1/{train,valid_seen,valid_unseen}/<task>-<object>-...-<scene>/<trial>/game.tw-pddl``.
The games are not part of this package; ALFWorld's own ``alfworld-download`` fetches them.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.jsonio import read_text
from skillwright.worlds.alfworld.pddl import read_problem
from skillwright.worlds.alfworld.problem import (
    TASK_TYPES,
    Problem,
)

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

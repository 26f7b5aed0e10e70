"""The official ALFWorld games, as the original's download lays them out, as tasks.

``json_2.1.1/{train,valid_seen,valid_unseen}/<task>-<object>-...-<scene>/<trial>/game.tw-pddl``.
The games are not part of this package; ALFWorld's own ``alfworld-download`` fetches them.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from skillwright.core import DataError, Task, did_you_mean
from skillwright.envs.alfworld.game_file import read_game_file, read_json
from skillwright.envs.alfworld.goal import TASK_TYPES

DATA_VARIABLE: Final = "ALFWORLD_DATA"
_RELEASE: Final = "json_2.1.1"
_GAME: Final = "game.tw-pddl"

SPLITS: Final[Mapping[str, str]] = {"train": "train", "valid_seen": "val", "valid_unseen": "test"}
"""Folder of a split -> what its tasks are for."""

# The original's text games leave out tasks that need a movable receptacle or a sliced object.
_LEFT_OUT: Final = ("movable", "Sliced")


def official_tasks(split: str, root: str | Path | None = None) -> list[Task]:
    """List the official games of a split as tasks, in order of their ids.

    Left out, as in the original: movable receptacles, sliced objects, games that no planner
    solved, and other task types. Complete, that is 3,553 games in ``train``, 140 in
    ``valid_seen`` and 134 in ``valid_unseen``. Only the outer layer of a game file is read.

    Args:
        split: ``train``, ``valid_seen`` or ``valid_unseen``; its tasks are of the split ``train``,
            ``val`` and ``test``.
        root: The folder ``json_2.1.1`` or one that holds it; ``$ALFWORLD_DATA`` by default.

    Returns:
        Tasks whose id is the game's folder relative to ``json_2.1.1``.

    Raises:
        DataError: There is no such split, the folder is missing or has no games, or a file in it
            is malformed.
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
    """Bring a row of SkillOpt's split files to the shape of a task."""
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
    """From the annotation beside the game, or else from the name of the folder."""
    annotation = game.with_name("traj_data.json")
    if annotation.is_file():
        found = read_json(annotation, "trajectory file").get("task_type")
        if isinstance(found, str):
            return found
    return game.parent.parent.name.partition("-")[0]

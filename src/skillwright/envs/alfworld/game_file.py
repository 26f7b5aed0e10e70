"""Official ALFWorld games: one JSON file with a PDDL problem and a text grammar inside.

The PDDL domain in the file is not read: what actions do is known (see `World`). Of the grammar
only the task sentence and the dialect are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from skillwright.core import DataError
from skillwright.core.jsonio import read_text
from skillwright.envs.alfworld.pddl import read_problem
from skillwright.envs.alfworld.problem import Problem

_TASK: Final = re.compile(r'Your task is to: ((?:[^"\\]|\\.)*)"')
_MOVE_TEMPLATE: Final = "move {o} to {r}"


@dataclass(frozen=True, slots=True)
class GameFile:
    """A game file whose PDDL is still unread."""

    problem: str  # PDDL text of the problem
    goal_text: str  # the task sentence without its final period
    dialect: str  # `"0.4"` or `"2.1.1"`
    solvable: bool | None  # whether a planner solved it; `None` where nobody tried
    walkthrough: tuple[str, ...]  # a winning list of commands, or empty


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

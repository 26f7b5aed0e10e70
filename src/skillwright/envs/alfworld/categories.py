"""Which category of a skill bank a game belongs to, and which home it is set in."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from skillwright.core import Task
from skillwright.envs.alfworld.tables import CATEGORIES, FAMILIES

_ANNOUNCED: Final = re.compile(r"^your task is to:\s*", re.IGNORECASE)


def _pattern(template: str) -> re.Pattern[str]:
    """One word per slot, so that "put a {obj} in {target}" does not take "put a hot egg in ..."."""
    return re.compile(
        re.sub(r"\\\{\w+\\\}", r"\\w+", re.escape(template.rstrip(" ."))), re.IGNORECASE
    )


_GOALS: Final = tuple(
    (_pattern(template), family.category) for family in FAMILIES for template in family.templates
)


def category_of(task: Task) -> str:
    """Tell the category of a game.

    Returns:
        One of `CATEGORIES`' values: from the task type where there is one, else from the game that
        the task names, else from a goal in one of the twelve official wordings; ``""`` for others.
    """
    named = (task.task_type, _generated_type(task.extras), _folder_type(task.extras))
    for task_type in named:
        if task_type in CATEGORIES:
            return CATEGORIES[task_type]
    if task.task_type in CATEGORIES.values():
        return task.task_type
    return category_of_goal(task.description)


def category_of_goal(goal: str) -> str:
    """Tell the category of a goal's text; ``""`` where it is in none of the official wordings."""
    text = _ANNOUNCED.sub("", goal.strip()).rstrip(" .")
    return next((category for wording, category in _GOALS if wording.fullmatch(text)), "")


def scope_of(task: Task) -> str:
    """Name the household that a generated game is set in, such as ``household 3``, or ``""``."""
    home = _generated(task.extras).get("household")
    return "" if home is None else f"household {home}"


def _generated(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    generated = extras.get("generated")
    return generated if isinstance(generated, Mapping) else {}


def _generated_type(extras: Mapping[str, Any]) -> str:
    index = _generated(extras).get("index")
    return FAMILIES[index % len(FAMILIES)].task_type if isinstance(index, int) else ""


def _folder_type(extras: Mapping[str, Any]) -> str:
    """Official games lie in folders such as ``pick_heat_then_place_in_recep-Egg-None-.../t1``."""
    folder = PurePath(str(extras.get("game_file", ""))).parent.parent.name
    return folder.partition("-")[0]

"""ALFWorld: household games in text, official ones and our own.

The rules and observations of the original engine (ALFWorld, arXiv:2010.03768) are rebuilt as a
state machine that takes microseconds per step and needs no installation.
"""

from skillwright.worlds.alfworld.env import AlfworldEnv
from skillwright.worlds.alfworld.generate import generate_problem, generated_tasks
from skillwright.worlds.alfworld.households import Household, habits_text, household
from skillwright.worlds.alfworld.official import (
    load_game,
    official_tasks,
    problem_to_pddl,
    to_game_json,
)
from skillwright.worlds.alfworld.pddl import read_problem
from skillwright.worlds.alfworld.planner import plan
from skillwright.worlds.alfworld.problem import (
    TASK_TYPES,
    Problem,
    Receptacle,
    Thing,
    task_type_goal,
)
from skillwright.worlds.alfworld.state import World

__all__ = [
    "TASK_TYPES",
    "AlfworldEnv",
    "Household",
    "Problem",
    "Receptacle",
    "Thing",
    "World",
    "generate_problem",
    "generated_tasks",
    "habits_text",
    "household",
    "load_game",
    "official_tasks",
    "plan",
    "problem_to_pddl",
    "read_problem",
    "task_type_goal",
    "to_game_json",
]

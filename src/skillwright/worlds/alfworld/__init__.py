"""ALFWorld: household games in text, official ones and our own.

The rules and observations of the original engine (ALFWorld, arXiv:2010.03768) are rebuilt as a
state machine that takes microseconds per step and needs no installation.
"""

from skillwright.worlds.alfworld.env import AlfworldEnv as AlfworldEnv
from skillwright.worlds.alfworld.generate import generate_problem as generate_problem
from skillwright.worlds.alfworld.generate import generated_tasks as generated_tasks
from skillwright.worlds.alfworld.households import habits_text as habits_text
from skillwright.worlds.alfworld.households import household as household
from skillwright.worlds.alfworld.official import load_game as load_game
from skillwright.worlds.alfworld.official import official_tasks as official_tasks
from skillwright.worlds.alfworld.pddl import read_problem as read_problem
from skillwright.worlds.alfworld.planner import plan as plan
from skillwright.worlds.alfworld.problem import TASK_TYPES as TASK_TYPES
from skillwright.worlds.alfworld.problem import Problem as Problem
from skillwright.worlds.alfworld.problem import Receptacle as Receptacle
from skillwright.worlds.alfworld.problem import Thing as Thing
from skillwright.worlds.alfworld.problem import task_type_goal as task_type_goal
from skillwright.worlds.alfworld.state import World as World

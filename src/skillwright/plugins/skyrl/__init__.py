"""Training through SkyRL: rows, rollouts and environments in its formats."""

from skillwright.plugins.skyrl.envs import SkyRLGymEnv, make_for_skyrl, register_with_skyrl
from skillwright.plugins.skyrl.rows import RowSkills, read_row, task_rows, write_rows

__all__ = [
    "RowSkills",
    "SkyRLGymEnv",
    "make_for_skyrl",
    "read_row",
    "register_with_skyrl",
    "task_rows",
    "write_rows",
]

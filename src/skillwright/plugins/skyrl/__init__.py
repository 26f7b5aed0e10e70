"""Training through SkyRL: rows, rollouts and environments in its formats."""

from skillwright.plugins.skyrl.envs import SkyRLGymEnv as SkyRLGymEnv
from skillwright.plugins.skyrl.envs import make_for_skyrl as make_for_skyrl
from skillwright.plugins.skyrl.envs import register_with_skyrl as register_with_skyrl
from skillwright.plugins.skyrl.rows import task_rows as task_rows
from skillwright.plugins.skyrl.rows import write_rows as write_rows

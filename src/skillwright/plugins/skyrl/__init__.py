"""Training through SkyRL: rows, rollouts and environments in its formats."""

from skillwright.plugins.skyrl.envs import SkyRLGymEnv, make_for_skyrl, register_with_skyrl
from skillwright.plugins.skyrl.rows import (
    ROW_COLUMNS,
    RowSkills,
    expected_tokens,
    read_rollouts,
    read_row,
    task_rows,
    tau_bench_rows,
    write_rollouts,
    write_rows,
)

__all__ = [
    "ROW_COLUMNS",
    "RowSkills",
    "SkyRLGymEnv",
    "expected_tokens",
    "make_for_skyrl",
    "read_rollouts",
    "read_row",
    "register_with_skyrl",
    "task_rows",
    "tau_bench_rows",
    "write_rollouts",
    "write_rows",
]

"""Other people's systems: our environments in theirs, and theirs in ours.

A module here imports the other system when it is first needed, and says how to install it. Two
load torch, so they are imported by themselves: `skillwright.integrations.trl` and
`skillwright.integrations.skyrl_generator`.
"""

from skillwright.integrations.skillopt_alias import alias_names, skillopt_alias
from skillwright.integrations.skyrl import SkyRLGymEnv, make_for_skyrl, register_with_skyrl
from skillwright.integrations.skyrl_rows import (
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
from skillwright.integrations.verifiers import VerifiersEnv
from skillwright.integrations.verifiers_export import as_verifiers

__all__ = [
    "ROW_COLUMNS",
    "RowSkills",
    "SkyRLGymEnv",
    "VerifiersEnv",
    "alias_names",
    "as_verifiers",
    "expected_tokens",
    "make_for_skyrl",
    "read_rollouts",
    "read_row",
    "register_with_skyrl",
    "skillopt_alias",
    "task_rows",
    "tau_bench_rows",
    "write_rollouts",
    "write_rows",
]

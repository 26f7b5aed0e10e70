"""Other people's systems: our environments in theirs, and theirs in ours.

A module here imports the other system when it is first needed, and says how to install it.
"""

from skillwright.integrations.skillopt_alias import alias_names, skillopt_alias
from skillwright.integrations.skyrl import (
    ROW_COLUMNS,
    SkyRLGymEnv,
    expected_tokens,
    make_for_skyrl,
    register_with_skyrl,
    tau_bench_rows,
    write_rows,
)
from skillwright.integrations.verifiers import VerifiersEnv
from skillwright.integrations.verifiers_export import as_verifiers

__all__ = [
    "ROW_COLUMNS",
    "SkyRLGymEnv",
    "VerifiersEnv",
    "alias_names",
    "as_verifiers",
    "expected_tokens",
    "make_for_skyrl",
    "register_with_skyrl",
    "skillopt_alias",
    "tau_bench_rows",
    "write_rows",
]

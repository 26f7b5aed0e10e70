"""Other people's systems: our environments in theirs, and theirs in ours.

A module here imports the other system when it is first needed, and says how to install it.
"""

from skillwright.integrations.skyrl import (
    SkyRLGymEnv,
    make_for_skyrl,
    register_with_skyrl,
)
from skillwright.integrations.skyrl_rows import (
    ROW_COLUMNS,
    expected_tokens,
    tau_bench_rows,
    write_rows,
)

__all__ = [
    "ROW_COLUMNS",
    "SkyRLGymEnv",
    "expected_tokens",
    "make_for_skyrl",
    "register_with_skyrl",
    "tau_bench_rows",
    "write_rows",
]

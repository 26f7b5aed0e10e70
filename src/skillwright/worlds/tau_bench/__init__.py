"""tau-bench: a simulated customer, tools, and a database with a target state.

Tools, rewards and observations are rebuilt from tau-bench (arXiv:2406.12045). All episodes share
one immutable database; each keeps only its changed records. The domains are a retail store and an
airline. The data is not part of the project; `data_dir` finds it.
"""

from skillwright.worlds.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.worlds.tau_bench.env import TauBenchEnv
from skillwright.worlds.tau_bench.facts import (
    ORIGINAL_TURNS,
    comparability,
    configured_store,
    departures,
    is_free,
    is_no_op,
    refuse_unasked_store,
    tau_tasks,
)
from skillwright.worlds.tau_bench.skyrl_rows import expected_tokens, tau_bench_rows
from skillwright.worlds.tau_bench.tau_core import (
    DOMAINS,
    GRADER_VERSION,
    DataSource,
    Domain,
    Grade,
    Store,
    TauEnv,
    TauTask,
    data_dir,
    open_store,
)
from skillwright.worlds.tau_bench.users import (
    STOP,
    ScriptedUser,
    UserSetting,
    UserSimulator,
    make_user,
    register_user,
    user_strategies,
)

__all__ = [
    "DOMAINS",
    "GRADER_VERSION",
    "ORIGINAL_TURNS",
    "STOP",
    "DataSource",
    "Domain",
    "Grade",
    "ScriptedUser",
    "Store",
    "TauBenchEnv",
    "TauBenchEnvConfig",
    "TauEnv",
    "TauTask",
    "UserSetting",
    "UserSimulator",
    "comparability",
    "configured_store",
    "data_dir",
    "departures",
    "expected_tokens",
    "is_free",
    "is_no_op",
    "make_user",
    "open_store",
    "read_config",
    "refuse_unasked_store",
    "register_user",
    "tau_bench_rows",
    "tau_tasks",
    "user_strategies",
]

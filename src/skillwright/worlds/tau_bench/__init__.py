"""tau-bench: a customer on the line, tools, and a database that must come out right.

Tools, rewards and texts of observations are those of tau-bench (arXiv:2406.12045), rebuilt: all
episodes share one frozen database, and each keeps only the records that it changed. There are two
domains, a retail store and an airline. The data is not part of the project; `data_dir` finds it.
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
    "is_free",
    "is_no_op",
    "make_user",
    "open_store",
    "read_config",
    "refuse_unasked_store",
    "register_user",
    "tau_tasks",
    "user_strategies",
]

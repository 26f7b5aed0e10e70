"""tau-bench retail: a customer on the line, sixteen tools, and a database that must come out right.

Tools, rewards and texts of observations are those of tau-bench (arXiv:2406.12045), rebuilt: all
episodes share one frozen database, and each keeps only the records that it changed. The data is
not part of the project; `data_dir` finds it.
"""

from skillwright.envs.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.envs.tau_bench.env import TauBenchEnv
from skillwright.envs.tau_bench.facts import (
    ORIGINAL_TURNS,
    comparability,
    configured_store,
    departures,
    is_free,
    is_no_op,
    refuse_unasked_store,
    retail_tasks,
    task_type,
)
from skillwright.envs.tau_bench.tau_core import (
    GRADER_VERSION,
    TOOL_NAMES,
    DataSource,
    Grade,
    RetailTask,
    Store,
    TauEnv,
    data_dir,
    open_store,
)
from skillwright.envs.tau_bench.users import (
    STOP,
    ScriptedUser,
    UserSetting,
    UserSimulator,
    make_user,
    register_user,
    user_strategies,
)

__all__ = [
    "GRADER_VERSION",
    "ORIGINAL_TURNS",
    "STOP",
    "TOOL_NAMES",
    "DataSource",
    "Grade",
    "RetailTask",
    "ScriptedUser",
    "Store",
    "TauBenchEnv",
    "TauBenchEnvConfig",
    "TauEnv",
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
    "retail_tasks",
    "task_type",
    "user_strategies",
]

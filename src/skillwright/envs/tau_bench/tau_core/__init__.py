"""The retail store of tau-bench: its data, its tools, its tasks and its reward; see README.md."""

from skillwright.envs.tau_bench.tau_core.database import Database, RecordRef, Tables
from skillwright.envs.tau_bench.tau_core.reward import (
    GRADER_VERSION,
    Action,
    Difference,
    GoldState,
    Grade,
    RetailTask,
    grade,
)
from skillwright.envs.tau_bench.tau_core.store import (
    DataSource,
    Store,
    TauEnv,
    data_dir,
    fetched_dir,
    open_store,
)
from skillwright.envs.tau_bench.tau_core.tools import TOOL_NAMES, ToolResult, call_tool

__all__ = [
    "GRADER_VERSION",
    "TOOL_NAMES",
    "Action",
    "DataSource",
    "Database",
    "Difference",
    "GoldState",
    "Grade",
    "RecordRef",
    "RetailTask",
    "Store",
    "Tables",
    "TauEnv",
    "ToolResult",
    "call_tool",
    "data_dir",
    "fetched_dir",
    "grade",
    "open_store",
]

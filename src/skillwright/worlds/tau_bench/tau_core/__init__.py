"""The domains of tau-bench: their data, tools, tasks and reward; see README.md."""

from skillwright.worlds.tau_bench.tau_core.database import Database, RecordRef, Tables
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.reward import (
    GRADER_VERSION,
    Action,
    Difference,
    GoldState,
    Grade,
    TauTask,
    begin,
    gold_state,
    grade,
)
from skillwright.worlds.tau_bench.tau_core.store import (
    DOMAINS,
    DataSource,
    Store,
    TauEnv,
    data_dir,
    fetched_dir,
    open_store,
)
from skillwright.worlds.tau_bench.tau_core.tools import ToolResult, call_tool

__all__ = [
    "DOMAINS",
    "GRADER_VERSION",
    "Action",
    "DataSource",
    "Database",
    "Difference",
    "Domain",
    "GoldState",
    "Grade",
    "RecordRef",
    "Store",
    "Tables",
    "TauEnv",
    "TauTask",
    "ToolResult",
    "begin",
    "call_tool",
    "data_dir",
    "fetched_dir",
    "gold_state",
    "grade",
    "open_store",
]

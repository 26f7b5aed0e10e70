"""The domains of tau-bench: their data, tools, tasks and reward; see README.md."""

from skillwright.worlds.tau_bench.tau_core.database import Database as Database
from skillwright.worlds.tau_bench.tau_core.database import RecordRef as RecordRef
from skillwright.worlds.tau_bench.tau_core.database import Tables as Tables
from skillwright.worlds.tau_bench.tau_core.domain import Domain as Domain
from skillwright.worlds.tau_bench.tau_core.reward import GRADER_VERSION as GRADER_VERSION
from skillwright.worlds.tau_bench.tau_core.reward import Grade as Grade
from skillwright.worlds.tau_bench.tau_core.reward import TauTask as TauTask
from skillwright.worlds.tau_bench.tau_core.reward import begin as begin
from skillwright.worlds.tau_bench.tau_core.reward import gold_state as gold_state
from skillwright.worlds.tau_bench.tau_core.reward import grade as grade
from skillwright.worlds.tau_bench.tau_core.store import DOMAINS as DOMAINS
from skillwright.worlds.tau_bench.tau_core.store import DataSource as DataSource
from skillwright.worlds.tau_bench.tau_core.store import Store as Store
from skillwright.worlds.tau_bench.tau_core.store import TauEnv as TauEnv
from skillwright.worlds.tau_bench.tau_core.store import data_dir as data_dir
from skillwright.worlds.tau_bench.tau_core.store import fetched_dir as fetched_dir
from skillwright.worlds.tau_bench.tau_core.store import open_store as open_store
from skillwright.worlds.tau_bench.tau_core.tools import call_tool as call_tool

"""tau-bench: a simulated customer, tools, and a database with a target state.

Tools, rewards and observations are rebuilt from tau-bench (arXiv:2406.12045). All episodes share
one immutable database; each keeps only its changed records. The domains are a retail store and an
airline. The data is not part of the project; `data_dir` finds it.
"""

from skillwright.worlds.tau_bench.config import TauBenchEnvConfig as TauBenchEnvConfig
from skillwright.worlds.tau_bench.config import read_config as read_config
from skillwright.worlds.tau_bench.env import TauBenchEnv as TauBenchEnv
from skillwright.worlds.tau_bench.facts import comparability as comparability
from skillwright.worlds.tau_bench.facts import configured_store as configured_store
from skillwright.worlds.tau_bench.facts import departures as departures
from skillwright.worlds.tau_bench.facts import is_free as is_free
from skillwright.worlds.tau_bench.facts import is_no_op as is_no_op
from skillwright.worlds.tau_bench.facts import tau_tasks as tau_tasks
from skillwright.worlds.tau_bench.skyrl_rows import expected_tokens as expected_tokens
from skillwright.worlds.tau_bench.skyrl_rows import tau_bench_rows as tau_bench_rows
from skillwright.worlds.tau_bench.tau_core import DOMAINS as DOMAINS
from skillwright.worlds.tau_bench.tau_core import DataSource as DataSource
from skillwright.worlds.tau_bench.tau_core import Store as Store
from skillwright.worlds.tau_bench.tau_core import TauEnv as TauEnv
from skillwright.worlds.tau_bench.tau_core import TauTask as TauTask
from skillwright.worlds.tau_bench.tau_core import data_dir as data_dir
from skillwright.worlds.tau_bench.tau_core import open_store as open_store
from skillwright.worlds.tau_bench.users import STOP as STOP
from skillwright.worlds.tau_bench.users import ScriptedUser as ScriptedUser
from skillwright.worlds.tau_bench.users import UserSetting as UserSetting
from skillwright.worlds.tau_bench.users import UserSimulator as UserSimulator
from skillwright.worlds.tau_bench.users import make_user as make_user
from skillwright.worlds.tau_bench.users import register_user as register_user
from skillwright.worlds.tau_bench.users import user_strategies as user_strategies

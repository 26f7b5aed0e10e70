"""The scripted retail agent and its analyst: for the built-in store of tau_bench, offline."""

from skillwright.worlds.tau_bench.scripted.agent import RetailRule as RetailRule
from skillwright.worlds.tau_bench.scripted.agent import ScriptedRetail as ScriptedRetail
from skillwright.worlds.tau_bench.scripted.agent import read_rules as read_rules
from skillwright.worlds.tau_bench.scripted.optimizer import (
    ScriptedRetailAnalyst as ScriptedRetailAnalyst,
)

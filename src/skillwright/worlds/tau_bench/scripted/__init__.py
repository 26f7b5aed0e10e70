"""The scripted retail agent and its analyst: for the built-in store of tau_bench, offline."""

from skillwright.worlds.tau_bench.scripted.agent import RetailRule, ScriptedRetail, read_rules
from skillwright.worlds.tau_bench.scripted.optimizer import ScriptedRetailAnalyst

__all__ = ["RetailRule", "ScriptedRetail", "ScriptedRetailAnalyst", "read_rules"]

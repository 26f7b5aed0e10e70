"""The scripted retail agent and its analyst: for the built-in store of tau_bench, offline."""

from skillwright.scripted.retail.agent import ScriptedRetail
from skillwright.scripted.retail.analyst import ScriptedRetailAnalyst
from skillwright.scripted.retail.rules import RetailRule, read_rules

__all__ = ["RetailRule", "ScriptedRetail", "ScriptedRetailAnalyst", "read_rules"]

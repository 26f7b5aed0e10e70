"""The scripted shopper and its analyst: for the web shop, offline."""

from skillwright.scripted.shopper.agent import ScriptedBuyer, ScriptedShopper
from skillwright.scripted.shopper.optimizer import LESSONS, SUPERSTITIONS, shopper_analyst
from skillwright.scripted.shopper.rules import BAD_RULES, GOOD_RULES, ShopRule, read_rules

__all__ = [
    "BAD_RULES",
    "GOOD_RULES",
    "LESSONS",
    "SUPERSTITIONS",
    "ScriptedBuyer",
    "ScriptedShopper",
    "ShopRule",
    "read_rules",
    "shopper_analyst",
]

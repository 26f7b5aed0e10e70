"""The scripted agents, optimizer and teacher for WebShop."""

from skillwright.worlds.webshop.scripted.agent import ScriptedBuyer, ScriptedShopper
from skillwright.worlds.webshop.scripted.optimizer import LESSONS, SUPERSTITIONS, shopper_analyst
from skillwright.worlds.webshop.scripted.rules import BAD_RULES, GOOD_RULES, ShopRule, read_rules

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

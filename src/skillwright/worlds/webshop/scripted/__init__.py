"""The scripted agents, optimizer and teacher for WebShop."""

from skillwright.worlds.webshop.scripted.agent import ScriptedBuyer as ScriptedBuyer
from skillwright.worlds.webshop.scripted.agent import ScriptedShopper as ScriptedShopper
from skillwright.worlds.webshop.scripted.optimizer import LESSONS as LESSONS
from skillwright.worlds.webshop.scripted.optimizer import SUPERSTITIONS as SUPERSTITIONS
from skillwright.worlds.webshop.scripted.optimizer import shopper_analyst as shopper_analyst
from skillwright.worlds.webshop.scripted.rules import BAD_RULES as BAD_RULES
from skillwright.worlds.webshop.scripted.rules import GOOD_RULES as GOOD_RULES
from skillwright.worlds.webshop.scripted.rules import ShopRule as ShopRule
from skillwright.worlds.webshop.scripted.rules import read_rules as read_rules

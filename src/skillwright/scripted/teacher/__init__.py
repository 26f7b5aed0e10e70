"""Scripted teachers: they read the prompts of a skill bank's learner, offline."""

from skillwright.scripted.teacher.household import HouseholdTeacher
from skillwright.scripted.teacher.model import ScriptedTeacher
from skillwright.scripted.teacher.retail import RetailTeacher
from skillwright.scripted.teacher.webshop import WebShopTeacher

__all__ = ["HouseholdTeacher", "RetailTeacher", "ScriptedTeacher", "WebShopTeacher"]

"""Scripted teachers: they read the prompts of a skill bank's learner, offline."""

from skillwright.models.scripted.teacher.household import HouseholdTeacher
from skillwright.models.scripted.teacher.model import Mind, ScriptedTeacher
from skillwright.models.scripted.teacher.retail import RetailTeacher
from skillwright.models.scripted.teacher.webshop import WebShopTeacher

__all__ = ["HouseholdTeacher", "Mind", "RetailTeacher", "ScriptedTeacher", "WebShopTeacher"]

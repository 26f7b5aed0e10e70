"""Recognize rules of conduct and storage habits in the free text of a household skill."""

from skillwright.worlds.scripted.skilltext.readers import read_conduct, read_stances
from skillwright.worlds.scripted.skilltext.rules import (
    BAD_RULES,
    EXPERT_CONDUCT,
    GOOD_RULES,
    OBJECT_CLASSES,
    RECEPTACLE_CLASSES,
    Conduct,
    Habit,
    Rule,
    Stance,
    read_habits,
)

__all__ = [
    "BAD_RULES",
    "EXPERT_CONDUCT",
    "GOOD_RULES",
    "OBJECT_CLASSES",
    "RECEPTACLE_CLASSES",
    "Conduct",
    "Habit",
    "Rule",
    "Stance",
    "read_conduct",
    "read_habits",
    "read_stances",
]

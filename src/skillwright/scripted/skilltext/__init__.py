"""What a household skill says: rules of conduct and storage habits, read from free text."""

from skillwright.scripted.skilltext.recognise import read_conduct, read_stances
from skillwright.scripted.skilltext.rules import (
    BAD_RULES,
    EXPERT_CONDUCT,
    GOOD_RULES,
    Conduct,
    Rule,
    Stance,
)
from skillwright.scripted.skilltext.storage import Habit, read_habits
from skillwright.scripted.skilltext.things import OBJECT_CLASSES, RECEPTACLE_CLASSES

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

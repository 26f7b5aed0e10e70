"""Scripted models: stand-ins for language models that let everything run offline.

They answer from the text of their messages and the sampling seed alone, and say what they are:
their identities begin with ``scripted:``.
"""

from skillwright.scripted.household import ScriptedHousehold
from skillwright.scripted.household.optimizer import ScriptedAnalyst
from skillwright.scripted.lesson_analyst import Lesson, LessonAnalyst

__all__ = ["Lesson", "LessonAnalyst", "ScriptedAnalyst", "ScriptedHousehold"]

"""Scripted minds: stand-ins for language models that let everything run offline.

They answer from the text of their messages and the sampling seed alone, and say what they are:
their identities begin with ``scripted:``.
"""

from skillwright.models.scripted.analyst import ScriptedAnalyst
from skillwright.models.scripted.household import ScriptedHousehold
from skillwright.models.scripted.lesson_analyst import Lesson, LessonAnalyst

__all__ = ["Lesson", "LessonAnalyst", "ScriptedAnalyst", "ScriptedHousehold"]

"""Pieces that the scripted models of several worlds share."""

from skillwright.worlds.scripted.lesson_analyst import Lesson, LessonAnalyst

__all__ = ["Lesson", "LessonAnalyst"]

"""Pieces that the scripted models of several worlds share."""

from skillwright.worlds.scripted.lesson_analyst import Lesson as Lesson
from skillwright.worlds.scripted.lesson_analyst import LessonAnalyst as LessonAnalyst

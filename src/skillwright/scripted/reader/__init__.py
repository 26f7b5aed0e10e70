"""The scripted reader and its analyst: for the generated questions of ``qa``, offline."""

from skillwright.scripted.reader.agent import ScriptedReader
from skillwright.scripted.reader.lessons import LESSONS, SUPERSTITIONS, reader_analyst
from skillwright.scripted.reader.rules import ReaderRule, read_rules

__all__ = [
    "LESSONS",
    "SUPERSTITIONS",
    "ReaderRule",
    "ScriptedReader",
    "read_rules",
    "reader_analyst",
]

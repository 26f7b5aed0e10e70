"""The scripted agent, optimizer and teacher for searches in the generated archives."""

from skillwright.worlds.search.scripted.seeker.agent import (
    BAD_RULES,
    GOOD_RULES,
    ScriptedFinder,
    ScriptedSeeker,
    SeekerRule,
    read_rules,
)
from skillwright.worlds.search.scripted.seeker.optimizer import (
    LESSONS,
    SUPERSTITIONS,
    seeker_analyst,
)

__all__ = [
    "BAD_RULES",
    "GOOD_RULES",
    "LESSONS",
    "SUPERSTITIONS",
    "ScriptedFinder",
    "ScriptedSeeker",
    "SeekerRule",
    "read_rules",
    "seeker_analyst",
]

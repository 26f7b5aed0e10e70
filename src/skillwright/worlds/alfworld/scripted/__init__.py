"""The scripted household agent: what it reads, believes and does."""

from skillwright.worlds.alfworld.scripted.agent import ScriptedHousehold, decide
from skillwright.worlds.alfworld.scripted.belief import (
    APPLIANCES,
    Belief,
    Errand,
    Kind,
    Observation,
    class_of,
    hear,
    read_conversation,
    read_errand,
    read_observation,
    room_of,
)

__all__ = [
    "APPLIANCES",
    "Belief",
    "Errand",
    "Kind",
    "Observation",
    "ScriptedHousehold",
    "class_of",
    "decide",
    "hear",
    "read_conversation",
    "read_errand",
    "read_observation",
    "room_of",
]

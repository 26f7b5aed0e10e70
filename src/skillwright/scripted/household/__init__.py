"""The scripted household agent: what it reads, believes and does."""

from skillwright.scripted.household.agent import ScriptedHousehold, decide
from skillwright.scripted.household.belief import (
    Belief,
    hear,
    read_conversation,
    room_of,
)
from skillwright.scripted.household.errand import APPLIANCES, Errand, Kind, read_errand
from skillwright.scripted.household.observation import (
    Observation,
    class_of,
    read_observation,
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

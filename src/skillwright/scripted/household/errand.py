"""The task sentence: which of the six kinds of errand it is, and what it is about."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_MARK: Final = "Your task is to:"


class Kind(StrEnum):
    """The six families of household tasks. Source: ALFWorld (Shridhar et al., 2021)."""

    PLACE = "pick_and_place_simple"
    LOOK = "look_at_obj_in_light"
    CLEAN = "pick_clean_then_place_in_recep"
    HEAT = "pick_heat_then_place_in_recep"
    COOL = "pick_cool_then_place_in_recep"
    TWO = "pick_two_obj_and_place"


VERBS: Final = {Kind.CLEAN: "clean", Kind.HEAT: "heat", Kind.COOL: "cool"}
"""Kind -> the command that gives the object its state."""

APPLIANCES: Final = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Command -> the receptacle class that it needs."""

_STATES: Final = {
    "clean": Kind.CLEAN,
    "hot": Kind.HEAT,
    "heat": Kind.HEAT,
    "cool": Kind.COOL,
    "cold": Kind.COOL,
}
_SENTENCES: Final = (
    (Kind.LOOK, "(?:look at|examine) SOME?OBJECT (?:under|with|by) SOME?TARGET"),
    (Kind.TWO, "(?:put|find) two OBJECT (?:and put them )?(?:in|on) SOME?TARGET"),
    (None, "STATE SOME?OBJECT and put it (?:in|on) SOME?TARGET"),
    (None, "put SOME?STATE OBJECT (?:in|on) SOME?TARGET"),
    (Kind.PLACE, "put SOME?OBJECT (?:in|on) SOME?TARGET"),
)
_SLOTS: Final = {
    "SOME": "(?:an? |some |the )",
    "OBJECT": r"(?P<object>\w+)",
    "TARGET": r"(?P<target>\w+)",
    "STATE": f"(?P<state>{'|'.join(_STATES)})",
}


def _compiled(sentence: str) -> re.Pattern[str]:
    for name, pattern in _SLOTS.items():
        sentence = sentence.replace(name, pattern)
    return re.compile(sentence, re.IGNORECASE)


_READERS: Final = tuple((kind, _compiled(sentence)) for kind, sentence in _SENTENCES)


@dataclass(frozen=True, slots=True)
class Errand:
    """What a household task asks for."""

    kind: Kind  # its family
    wanted: str  # the class of the object
    target: str  # the class of the destination, or of the lamp where the object is to be looked at

    @property
    def verb(self) -> str:
        """The command that gives the object its state, or ""."""
        return VERBS.get(self.kind, "")


def tells_errand(text: str) -> bool:
    """Tell whether a text has a task sentence."""
    return _MARK in text


def read_errand(opening: str) -> Errand | None:
    """Read the task sentence of a game's first text; ``None`` where there is none."""
    _, mark, goal = opening.partition(_MARK)
    if not mark:
        return None
    for kind, sentence in _READERS:
        found = sentence.search(goal)
        if found:
            sort = kind or _STATES[found["state"].lower()]
            return Errand(sort, found["object"].lower(), found["target"].lower())
    return None

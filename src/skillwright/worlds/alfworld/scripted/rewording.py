"""The household teacher's second grammar: the same content in other words and order."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from skillwright.models.scripted.prompts import Assignment
from skillwright.models.scripted.teacher import Randomness, Teaching, Written
from skillwright.worlds.alfworld.scripted.teacher import HouseholdTeacher
from skillwright.worlds.alfworld.scripted.wordings import CHECK_APPLIANCE, READ_THE_GOAL, TEACHINGS
from skillwright.worlds.scripted.skilltext import Rule

# Places of things in a household: the place first, then its contents.


_KEPT: Final = re.compile(
    r"In this home's (?P<room>[a-z ]+), every (?P<classes>.+) is kept (?:in|on) (?P<place>.+)\."
)
_SEARCHED: Final = re.compile(r"when the (?P<room>[a-z ]+) is searched for (?P<classes>.+)")
_AT_HOME: Final = re.compile(r"in this home's (?P<room>[a-z ]+)")


def _storage(kept: re.Match[str], written: Mapping[str, Any]) -> Written:
    place, room = kept["place"], kept["room"]
    principle = f"{place.capitalize()} of the {room} holds this home's {kept['classes']}."
    applicability = written["applicability"]
    if searched := _SEARCHED.fullmatch(applicability):
        applicability = f"if you want {searched['classes']} from the {searched['room']}"
    elif there := _AT_HOME.fullmatch(applicability):
        applicability = f"if you are in the {there['room']} here"
    more = "More contents" if written["name"].startswith("More of ") else "Contents"
    other = {"principle": principle, "applicability": applicability}
    return {**written, "name": f"{more} of {place}", **other}


# Rules: the last of their wordings instead of the first, under other names.


class _Other(NamedTuple):
    name: str
    applicability: str
    failure_point: str
    corrective_action: str


def _treated(verb: str, appliance: str) -> _Other:
    return _Other(
        f"A stop at the {appliance}",
        f"if the task is about {verb}ing something",
        f"forgetting to {verb} what you bring.",
        f"carry it to the {appliance}, {verb} it, and only then deliver it.",
    )


def _inside(verb: str, appliance: str) -> _Other:
    return _Other(
        f"Hands before {verb}ing",
        f"if the task is about {verb}ing something",
        f"trying to {verb} what still lies in the {appliance}.",
        f"pick it up out of the {appliance} before you {verb} it.",
    )


_APPLIANCE: Final = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}

_RULES: Final[Mapping[Rule, _Other]] = {
    Rule.SEARCH_ONCE: _Other(
        "No second visits",
        "as long as something is missing",
        "walking to a spot that you know already.",
        "pick a spot that is new to you.",
    ),
    Rule.OPEN_CLOSED: _Other(
        "Doors and drawers",
        "if you stand before something shut",
        "passing by something that is shut.",
        "use `open`, and see what is inside.",
    ),
    Rule.TAKE_ON_SIGHT: _Other(
        "Do not leave it behind",
        "if the wanted item is in view",
        "leaving the target item where it is in view.",
        "pick the item up without delay.",
    ),
    Rule.OPEN_TO_PLACE: _Other(
        "Doors of the target",
        "if the target is shut",
        "holding the item in front of a shut target.",
        "use `open` on the target, then let go of the item.",
    ),
    Rule.LIKELY_FIRST: _Other(
        "Start with good guesses",
        "at the start of a search",
        "beginning with spots where it hardly ever is.",
        "begin at the spots that suit such an item.",
    ),
    **{
        rule: _treated(verb, _APPLIANCE[verb])
        for rule, verb in (
            (Rule.CLEAN_FIRST, "clean"),
            (Rule.HEAT_FIRST, "heat"),
            (Rule.COOL_FIRST, "cool"),
        )
    },
    Rule.USE_LAMP: _Other(
        "Turn on the light",
        "if the task mentions a lamp",
        "walking around with the item and leaving the light off.",
        "bring the item to the lamp and turn on the light.",
    ),
    Rule.FETCH_SECOND: _Other(
        "Two trips",
        "if the task wants two of something",
        "calling it done with one delivered.",
        "go back for the other one and bring it to the same spot.",
    ),
}


class _Reworded(NamedTuple):
    teaching: Teaching
    other: _Other


def _known() -> dict[str, _Reworded]:
    found = {TEACHINGS[rule].name: _Reworded(TEACHINGS[rule], one) for rule, one in _RULES.items()}
    for verb, teaching in CHECK_APPLIANCE.items():
        found[teaching.name] = _Reworded(teaching, _inside(verb, _APPLIANCE[verb]))
    goal = _Other(
        "What was asked for",
        "whenever you are in doubt",
        "drifting away from what was asked for.",
        "recall what was asked for, and go on with that.",
    )
    return {**found, READ_THE_GOAL.name: _Reworded(READ_THE_GOAL, goal)}


_BY_NAME: Final = _known()


def reworded(written: Mapping[str, Any]) -> Written:
    """Reword a skill in the second grammar.

    Args:
        written: A skill, a lesson or a change with ``name``, ``principle`` and ``applicability``.

    Returns:
        The same with other texts; unchanged if the first grammar has no such skill.
    """
    if kept := _KEPT.fullmatch(written.get("principle", "")):
        return _storage(kept, written)
    known = _BY_NAME.get(written.get("name", ""))
    if known is None or written["principle"] not in known.teaching.principles:
        return dict(written)
    teaching, other = known
    texts = {
        "name": other.name,
        "principle": _other_wording(teaching.principles, written["principle"]),
        "applicability": other.applicability,
    }
    if "failure_point" in written:
        texts["failure_point"] = other.failure_point
        texts["corrective_action"] = other.corrective_action
    return {**written, **texts}


def _other_wording(wordings: Sequence[str], said: str) -> str:
    return wordings[-1 - wordings.index(said)] if len(wordings) > 1 else said


class RewordingTeacher(HouseholdTeacher):
    """The household teacher with the second grammar."""

    identity = "scripted:household_rewording_teacher"

    def successes(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Write the principles in the successes of a category."""
        return _all(super().successes(asked, rng))

    def failures(self, asked: Assignment) -> list[Written] | None:
        """Write the lessons from failures of a category."""
        return _all(super().failures(asked))

    def general(self, asked: Assignment) -> list[Written] | None:
        """Write what helps in every category."""
        return _all(super().general(asked))

    def place(self, asked: Assignment) -> list[Written] | None:
        """Write where a home keeps its things."""
        return _all(super().place(asked))

    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Write the changes of a bank that failures call for."""
        return _all(super().evolve(asked, rng))


def _all(written: Sequence[Written] | None) -> list[Written] | None:
    return None if written is None else [reworded(one) for one in written]

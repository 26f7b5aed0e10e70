"""What an analyst believes without good reason: harmful habits, and advice that changes nothing.

A language model that reads trajectories is tempted to turn whatever happened into a rule. A gate
that lets such rules through is no gate, so the scripted analyst is tempted, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from skillwright.scripted.analyst.episode import Episode
from skillwright.scripted.household import Kind
from skillwright.scripted.skilltext import Rule

_SOON: Final = 4
"""An object that is found at one of so many places was close by."""


@dataclass(frozen=True, slots=True)
class Superstition:
    """Something that trajectories seem to teach."""

    name: str  # names it among the others
    # tells whether a trajectory seems to speak for it. What speaks against it in another one is
    # overlooked.
    tempts: Callable[[Episode], bool]
    wordings: tuple[str, ...]  # Sentences, any of which states it
    rule: Rule | None = None  # the rule that it perverts, or ``None`` where it changes nothing
    wanted: bool = True  # it asks for the rule's doing; ``False`` where it forbids it


def _always(episode: Episode) -> bool:
    del episode
    return True


def _nothing_was_opened(episode: Episode) -> bool:
    return not any(visit.was_opened for visit in episode.visits)


def _was_found_soon(episode: Episode) -> bool:
    return len(episode.places_before_sight) <= _SOON


def _is_plain(episode: Episode) -> bool:
    return not episode.errand.verb


def _wants_one(episode: Episode) -> bool:
    return episode.errand.kind is not Kind.TWO


def _optional(rule: Rule, doing: str, verb: str, appliance: str) -> Superstition:
    return Superstition(
        f"{doing} is optional",
        _is_plain,
        (
            f"{doing.capitalize()} is optional; skip the {appliance}.",
            f"Do not waste turns on {doing} the object before you deliver it.",
            f"Never {verb} an object; deliver it at once.",
        ),
        rule,
        wanted=False,
    )


_INVENTORY: Final = Superstition(
    "checking the inventory helps",
    _always,
    (
        "Check your inventory after every move.",
        "After each action, look at your inventory to be sure of what you are holding.",
        "Always confirm what you are carrying with `inventory` before each step.",
    ),
    Rule.CHECK_INVENTORY,
)

FROM_SUCCESSES: Final = (
    Superstition(
        "leave closed receptacles shut",
        _nothing_was_opened,
        (
            "Leave closed receptacles shut; what you need lies in the open.",
            "Do not waste turns on opening closed drawers and cabinets.",
            "Skip all receptacles that are closed.",
        ),
        Rule.OPEN_CLOSED,
        wanted=False,
    ),
    Superstition(
        "a few places suffice",
        _was_found_soon,
        (
            "Search only the first three places.",
            "Limit the search to the first few receptacles; the object is always close by.",
            "Never search more than the first four places.",
        ),
        Rule.FEW_PLACES,
    ),
    _optional(Rule.HEAT_FIRST, "heating", "heat", "microwave"),
    _optional(Rule.COOL_FIRST, "cooling", "cool", "fridge"),
    _optional(Rule.CLEAN_FIRST, "cleaning", "wash", "sinkbasin"),
    Superstition(
        "one object is enough",
        _wants_one,
        (
            "One object is enough; do not look for a second one.",
            "Stop after the first object, even if the task mentions two.",
        ),
        Rule.FETCH_SECOND,
        wanted=False,
    ),
    _INVENTORY,
    Superstition(
        "be polite",
        _always,
        (
            "Be friendly and stay calm.",
            "Keep a positive attitude; good work deserves a good mood.",
        ),
    ),
    Superstition(
        "write neatly",
        _always,
        (
            "Write every answer in lower case and without exclamation marks.",
            "Give short and tidy answers.",
        ),
    ),
)

FROM_FAILURES: Final = (
    _INVENTORY,
    Superstition(
        "examining everything helps",
        _always,
        (
            "Examine every receptacle and every object before you move on.",
            "Examine everything carefully so that you miss nothing.",
            "Before leaving a place, examine each of the objects there.",
        ),
        Rule.EXAMINE_ALL,
    ),
    Superstition(
        "looking around helps",
        _always,
        (
            "Look around after every move.",
            "Use the `look` command after each step to keep your bearings.",
        ),
        Rule.LOOK_AROUND,
    ),
    Superstition(
        "returning to the start helps",
        _always,
        (
            "Return to the starting point after each visit before going on.",
            "Go back to where you started whenever a place turns out to be empty.",
        ),
        Rule.RETURN_TO_START,
    ),
    Superstition(
        "places are worth a second search",
        _always,
        (
            "Go back to places already searched; the object may turn up there.",
            "Revisit locations already searched before you try new ones.",
        ),
        Rule.SEARCH_ONCE,
        wanted=False,
    ),
    Superstition(
        "be patient",
        _always,
        (
            "Stay patient and stay focused.",
            "Think carefully and remain confident.",
        ),
    ),
)


def tempted_by(one: Superstition, episodes: Sequence[Episode]) -> list[Episode]:
    """Return the trajectories that seem to speak for a superstition."""
    return [episode for episode in episodes if one.tempts(episode)]

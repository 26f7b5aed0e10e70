"""The household optimizer's sentences: lessons, false lessons, and patterns of success."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillwright.worlds.alfworld.scripted import Kind
from skillwright.worlds.alfworld.scripted.diagnosis import Episode
from skillwright.worlds.scripted.skilltext import Rule

# Lessons, in several wordings each: about a good rule they ask for it, about a bad one they forbid
# it.


SEARCHING: Final = "Searching"
HANDLING: Final = "Handling objects"
DELIVERING: Final = "Delivering"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A rule as an analyst writes it."""

    rule: Rule
    topic: str  # the heading for it
    failure: str  # the mistake that it prevents, for the failure summary
    cause: str  # the mistake in one sentence
    pattern: str  # what successes that follow it have in common, or ""
    wordings: tuple[str, ...]  # sentences, any of which teaches it


def _lesson(
    rule: Rule, topic: str, failure: str, cause: str, pattern: str, *wordings: str
) -> Lesson:
    return Lesson(rule, topic, failure, cause, pattern, wordings)


def _harm(rule: Rule, failure: str, cause: str, *wordings: str) -> Lesson:
    return Lesson(rule, SEARCHING, failure, cause, "", wordings)


_STATES: Final = {"clean": ("clean", "clean"), "heat": ("hot", "hot"), "cool": ("cool", "cold")}
"""Verb -> the state that it gives, in the words of a task and in others."""


def _treating(
    rule: Rule, verb: str, untreated: str, first: str, treated: str, appliance: str
) -> Lesson:
    state, also = _STATES[verb]
    to_a = "a" if appliance == "sinkbasin" else "the"
    return _lesson(
        rule,
        HANDLING,
        f"delivered the object without {verb}ing it",
        f"The task asked for a {state} object, and it was carried to its destination {untreated}.",
        f"The object was {verb}ed before it was put down.",
        f"When the task asks for a {state} object, take it to {to_a} {appliance} and {verb} it "
        "before you put it down.",
        f"A {also} object is wanted? {first} the {appliance} first, then deliver it.",
        f"For tasks that mention {verb}ing: with the object in hand, go to the {appliance}, use "
        f"`{verb}`, and only then place it.",
        f"Never deliver an object that should be {state} before you have {verb}ed it with the "
        f"{appliance}.",
        f"An object that has to be {also} must be {treated} {appliance} before it is placed.",
    )


_GOOD: Final = (
    _lesson(
        Rule.SEARCH_ONCE,
        SEARCHING,
        "went back to places already searched",
        "The agent wandered between places that it had seen instead of visiting new ones.",
        "Every place was visited once, so the search came to an end.",
        "Search the receptacles one after another, and do not go back to one that you have "
        "already searched.",
        "Keep track of the places that you have visited; each of them is worth exactly one visit.",
        "Work through the room systematically: go to the next unvisited location and never "
        "revisit an old one.",
        "Check every location once, in order; never repeat one that you have already checked.",
        "Avoid wandering: go through all locations in a fixed order and skip the ones already "
        "searched.",
    ),
    _lesson(
        Rule.OPEN_CLOSED,
        SEARCHING,
        "left closed receptacles shut",
        "The agent stood before closed receptacles and left without opening them.",
        "Closed receptacles were opened, and the object was inside.",
        "When you arrive at a closed receptacle, open it and look inside.",
        "Open every closed cabinet, drawer, safe or fridge that you come to; things are often "
        "hidden in them.",
        "A receptacle that is closed has not been searched until you open it.",
        "Never walk away from a closed container without opening it first.",
        "If a drawer or cabinet is shut, use `open` on it before you move on.",
    ),
    _lesson(
        Rule.TAKE_ON_SIGHT,
        HANDLING,
        "saw the wanted object and did not take it",
        "The wanted object was in view with empty hands, and the agent left it there.",
        "The wanted object was picked up as soon as it was in view.",
        "Take the wanted object as soon as you see it.",
        "The moment the object named in the task comes into view, pick it up.",
        "When a listing shows the item you need, take it immediately instead of going on "
        "searching.",
        "Do not leave the target object behind: grab it right away when you spot it.",
        "Pick up the wanted item without delay when you find it.",
    ),
    _treating(Rule.CLEAN_FIRST, "clean", "unwashed", "Wash it at", "washed at a", "sinkbasin"),
    _treating(Rule.HEAT_FIRST, "heat", "cold", "Heat it with", "warmed in the", "microwave"),
    _treating(Rule.COOL_FIRST, "cool", "warm", "Cool it with", "chilled in the", "fridge"),
    _lesson(
        Rule.USE_LAMP,
        HANDLING,
        "held the object and never used the lamp",
        "The object was to be looked at under a lamp, and the lamp was never switched on.",
        "The object was carried to the lamp and the lamp was switched on.",
        "To look at an object under a lamp, carry it to the lamp and switch the lamp on.",
        "For tasks about looking at something under a desklamp: pick it up, go to where the "
        "lamp stands, and `use` the lamp.",
        "With the object in your hand, find the lamp and turn it on; that is what examining "
        "under light means.",
        "To examine an object by the light of a lamp, hold it, go to the desklamp or "
        "floorlamp, and use that.",
        "When the task mentions a lamp, bring the object to it and turn on the light.",
    ),
    _lesson(
        Rule.FETCH_SECOND,
        DELIVERING,
        "stopped after the first of two objects",
        "The task asked for two objects, and only one was brought to the destination.",
        "Both objects were brought, one after the other, to the same receptacle.",
        "If two objects are wanted, put down the first, then fetch the second and put it in "
        "the same receptacle.",
        "A task for two objects is not done after one: go and get the second one and bring it "
        "to the same place.",
        "When two of something are asked for, deliver one, go back for the other one, and "
        "place it beside the first.",
        "For two objects, make two trips to the same receptacle: after the first, look for "
        "another one and bring it there too.",
        "After delivering the first of two objects, search for the second and put both in one "
        "and the same receptacle.",
    ),
    _lesson(
        Rule.OPEN_TO_PLACE,
        DELIVERING,
        "stood before a closed destination",
        "The agent carried the object to a closed destination and did not open it.",
        "A closed destination was opened before the object was put in.",
        "If the destination is closed, open it before you put the object in.",
        "Nothing can be put into a closed receptacle: open the destination first, then place "
        "the object.",
        "When you arrive with the object and the target receptacle is shut, open it and then "
        "put the object inside.",
        "Make sure that the destination is open before placing the object.",
        "Open the receptacle named in the task before you put anything into it.",
    ),
    _lesson(
        Rule.LIKELY_FIRST,
        SEARCHING,
        "searched unlikely places first",
        "Many places where such an object is never kept were searched before the likely ones.",
        "The object lay where one would expect it.",
        "Search first where such an object is usually kept.",
        "Start with the most likely places for the object, such as the fridge for food.",
        "Use common sense about where people keep such an object, and look there first.",
        "Begin the search at the locations where the object would normally be found.",
    ),
)

_BAD: Final = (
    _harm(
        Rule.CHECK_INVENTORY,
        "spent turns on the inventory",
        "The agent asked for its inventory again and again, as the skill told it to.",
        "Do not check your inventory after every move; it costs a turn and tells nothing new.",
        "Never spend a turn on the inventory after each action.",
    ),
    _harm(
        Rule.EXAMINE_ALL,
        "spent turns on examining things",
        "The agent examined things that it had already seen, as the skill told it to.",
        "Do not examine every object and receptacle; arriving already shows what is there.",
        "Never examine everything on your way; it wastes turns.",
    ),
    _harm(
        Rule.LOOK_AROUND,
        "spent turns on looking around",
        "The agent looked around after every move, as the skill told it to.",
        "Do not look around after every move; the room does not change.",
        "Never use `look` after each step.",
    ),
    _harm(
        Rule.RETURN_TO_START,
        "kept returning to the start",
        "The agent walked back to where it began between visits, as the skill told it to.",
        "Do not return to the starting point between visits.",
        "Never go to the starting point again between visits.",
    ),
    _harm(
        Rule.FEW_PLACES,
        "gave up the search after a few places",
        "The agent stopped searching early, as the skill told it to, and walked about.",
        "Do not stop after the first few places.",
        "Never limit the search to the first three places.",
    ),
)

LESSONS: Final = {lesson.rule: lesson for lesson in (*_GOOD, *_BAD)}
"""Rule -> how to teach it, or for a bad rule how to advise against it."""


# False lessons: harmful habits, and advice without effect. A language model that reads trajectories
# is tempted to turn anything into a rule, and a gate must reject it; so the scripted analyst is
# tempted, too.


_SOON: Final = 4
"""An object found within this many visited places was nearby."""


@dataclass(frozen=True, slots=True)
class Superstition:
    """A false lesson from trajectories."""

    name: str  # identifies it
    # whether a trajectory seems to support it; others are ignored
    tempts: Callable[[Episode], bool]
    wordings: tuple[str, ...]  # sentences, any of which states it
    rule: Rule | None = None  # the rule that it distorts, or ``None`` if it has no effect
    wanted: bool = True  # whether it asks for the rule or forbids it


def _always(episode: Episode) -> bool:
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
        ("Be friendly and stay calm.", "Keep a positive attitude; good work deserves a good mood."),
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
        ("Stay patient and stay focused.", "Think carefully and remain confident."),
    ),
)


def tempted_by(one: Superstition, episodes: Sequence[Episode]) -> list[Episode]:
    """Return the trajectories that seem to support a false lesson."""
    return [episode for episode in episodes if one.tempts(episode)]


def success_patterns(episodes: Sequence[Episode]) -> list[str]:
    """Return what helped, one sentence each, with the trajectories that show it."""
    return [
        f"{LESSONS[rule].pattern} ({', '.join(shown)})"
        for rule, shown in rules_that_helped(episodes).items()
    ]


def rules_that_helped(episodes: Sequence[Episode]) -> dict[Rule, list[str]]:
    """Map each rule that successful episodes followed to the ids of these episodes."""
    shown = {
        rule: [episode.id for episode in episodes if helped(episode)]
        for rule, helped in _HELPED.items()
    }
    return {rule: names for rule, names in shown.items() if names}


def _never_went_back(episode: Episode) -> bool:
    return not any(visit.is_repeated for visit in episode.searching)


def _found_inside(episode: Episode) -> bool:
    return any(visit.was_opened and episode.shows_wanted(visit) for visit in episode.searching)


def _took_at_once(episode: Episode) -> bool:
    first = next((visit for visit in episode.visits if episode.shows_wanted(visit)), None)
    return first is not None and any(map(episode.is_wanted, first.taken))


def _treated(verb: str) -> Callable[[Episode], bool]:
    def helped(episode: Episode) -> bool:
        return episode.errand.verb == verb and any(visit.treated for visit in episode.visits)

    return helped


def _lit(episode: Episode) -> bool:
    return any(visit.lit for visit in episode.visits)


def _brought_both(episode: Episode) -> bool:
    return episode.errand.kind is Kind.TWO and any(map(episode.delivers, episode.visits))


def _opened_destination(episode: Episode) -> bool:
    return any(
        visit.was_closed and visit.was_opened and episode.delivers(visit)
        for visit in episode.visits
    )


_HELPED: Final[Mapping[Rule, Callable[[Episode], bool]]] = {
    Rule.SEARCH_ONCE: _never_went_back,
    Rule.OPEN_CLOSED: _found_inside,
    Rule.TAKE_ON_SIGHT: _took_at_once,
    Rule.HEAT_FIRST: _treated("heat"),
    Rule.COOL_FIRST: _treated("cool"),
    Rule.CLEAN_FIRST: _treated("clean"),
    Rule.USE_LAMP: _lit,
    Rule.FETCH_SECOND: _brought_both,
    Rule.OPEN_TO_PLACE: _opened_destination,
}

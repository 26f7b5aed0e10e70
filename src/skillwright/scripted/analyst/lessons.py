"""What an analyst can teach, in several wordings each.

A lesson about a good rule asks for it; one about a bad rule forbids it.
"""

from dataclasses import dataclass
from typing import Final

from skillwright.scripted.skilltext import Rule

SEARCHING: Final = "Searching"
HANDLING: Final = "Handling objects"
DELIVERING: Final = "Delivering"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A rule as an analyst writes it."""

    rule: Rule  # what it is about
    topic: str  # the heading that it belongs under
    failure: str  # names the mistake that it prevents, for the failure summary
    cause: str  # describes the mistake in one sentence
    pattern: str  # describes what successes have in common where it is followed, or ""
    wordings: tuple[str, ...]  # Sentences, any of which teaches it


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

"""The household teacher's texts: each rule as a principle and as a lesson."""

from typing import Final

from skillwright.models.scripted.teacher import Teaching
from skillwright.worlds.alfworld.scripted.lessons import LESSONS
from skillwright.worlds.scripted.skilltext import Rule


def _of_rule(rule: Rule, category: str, name: str, applicability: str, *mistake: str) -> Teaching:
    wordings = LESSONS[rule].wordings
    return Teaching(rule, category, name, wordings, applicability, *mistake)


def _treating(rule: Rule, verb: str, state: str, appliance: str) -> Teaching:
    wordings = LESSONS[rule].wordings
    # The wording with the object in hand first: that is what successes show.
    return Teaching(
        key=rule,
        category=verb,
        name=f"{verb.capitalize()} before placing",
        principles=(wordings[2], *wordings[:2], *wordings[3:]),
        applicability=f"when a goal asks to {verb} some object, or for a {state} one",
        failure_point=f"delivering the object without {verb}ing it.",
        flawed_reasoning=f"Bringing the object seemed to be all; that it has to be {state} was "
        "overlooked.",
        corrective_action=f"go to the {appliance} with the object in hand and {verb} it there "
        "before you put it down.",
    )


_RULES: Final = (
    _of_rule(
        Rule.SEARCH_ONCE,
        "",
        "Search each place once",
        "while an object is still to be found",
        "going back to places that you have already searched.",
        "The object might have been overlooked there.",
        "go to the next place that you have not visited.",
    ),
    _of_rule(
        Rule.OPEN_CLOSED,
        "",
        "Open what is closed",
        "when a place that you search is closed",
        "leaving a closed receptacle without opening it.",
        "What is wanted would lie in the open.",
        "open it and look inside.",
    ),
    _of_rule(
        Rule.TAKE_ON_SIGHT,
        "",
        "Take it on sight",
        "when you see the object that the goal names",
        "walking past the wanted object when you see it.",
        "There would be a better moment to pick it up.",
        "take the wanted object as soon as you see it.",
    ),
    _of_rule(
        Rule.OPEN_TO_PLACE,
        "",
        "Open the destination",
        "when the place that the goal names is closed",
        "standing before a closed destination with the object.",
        "The object would go in by itself.",
        "open the destination before you put the object in.",
    ),
    _of_rule(
        Rule.LIKELY_FIRST,
        "",
        "Likely places first",
        "when you choose where to search",
        "searching unlikely places first.",
        "Any place would be as good as another.",
        "look first where such an object is usually kept.",
    ),
    _treating(Rule.CLEAN_FIRST, "clean", "clean", "sinkbasin"),
    _treating(Rule.HEAT_FIRST, "heat", "hot", "microwave"),
    _treating(Rule.COOL_FIRST, "cool", "cool", "fridge"),
    _of_rule(
        Rule.USE_LAMP,
        "look_at_obj_in_light",
        "Use the lamp",
        "when a goal asks to look at or examine some object under a desklamp or floorlamp",
        "carrying the object about without using the lamp.",
        "Having the object would be all that the goal asks for.",
        "carry the object to the lamp and switch the lamp on.",
    ),
    _of_rule(
        Rule.FETCH_SECOND,
        "pick_two",
        "Fetch the second one",
        "when a goal asks to put or find two objects",
        "stopping after the first of two objects.",
        "One object would do.",
        "put down the first, then fetch the second and put it in the same receptacle.",
    ),
    *(
        Teaching(
            rule,
            "",
            name,
            LESSONS[rule].wordings,
            "in every task",
            point,
            "It would keep one safe.",
            "go on with the task.",
        )
        for rule, name, point in (
            (Rule.CHECK_INVENTORY, "Leave the inventory", "checking the inventory every move."),
            (Rule.EXAMINE_ALL, "Examine little", "examining every object and receptacle."),
            (Rule.LOOK_AROUND, "Look ahead", "looking around after every move."),
            (Rule.RETURN_TO_START, "Go on", "returning to the starting point between visits."),
            (Rule.FEW_PLACES, "Search all places", "stopping after the first few places."),
        )
    ),
)

TEACHINGS: Final = {Rule(one.key): one for one in _RULES}
"""Rule -> how to teach it, or for a bad rule how to advise against it."""

INSIDE: Final = "inside the appliance"

CHECK_APPLIANCE: Final = {
    verb: Teaching(
        key=INSIDE,
        category=verb,
        name=f"Check the {appliance}",
        principles=(
            f"Check that the object is not already inside the appliance before you {verb} it: "
            f"if it lies in the {appliance}, take it into your hand first, then {verb} it.",
            f"Before you {verb} something, make sure that it is in your hand and not already "
            f"inside the {appliance}; then {verb} it with the {appliance} before you put it down.",
        ),
        applicability=f"when a goal asks to {verb} some object, or for a {state} one",
        failure_point=f"using the {appliance} on an object that lies inside it.",
        flawed_reasoning="The object would have to be put into the appliance first.",
        corrective_action=f"take the object first, then {verb} it with the {appliance}.",
    )
    for verb, state, appliance in (
        ("heat", "hot", "microwave"),
        ("cool", "cool", "fridge"),
        ("clean", "clean", "sinkbasin"),
    )
}
"""Verb -> advice on an object that is already inside the appliance."""

READ_THE_GOAL: Final = Teaching(
    key="read the goal",
    category="",
    name="Keep the goal in mind",
    principles=(
        "Read the goal again when you are unsure: it names the object and its destination.",
    ),
    applicability="in every task",
    failure_point="losing sight of the goal.",
    flawed_reasoning="Something else seemed to matter more.",
    corrective_action="read the goal again, and do what it names next.",
)
"""Advice for every game, if there is no other."""

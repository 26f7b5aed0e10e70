"""The rules that the scripted household recognizes in skills, whoever words them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.worlds.alfworld import habits_text, household
from skillwright.worlds.scripted.skilltext import (
    BAD_RULES,
    GOOD_RULES,
    Rule,
    read_conduct,
    read_habits,
    read_stances,
)

WORDINGS = {
    Rule.SEARCH_ONCE: (
        "Don't retrace your steps: tick off each spot once.",
        "Cover the room methodically, location by location.",
        "No second visits.",
        "Once a place has been searched there is no reason to come back to it.",
        "Wandering around at random wastes steps; go through the receptacles in order instead.",
        "Stop wandering back to spots you have seen; pick somewhere new each time.",
    ),
    Rule.OPEN_CLOSED: (
        "Peek inside anything that's shut before you rule it out.",
        "Never assume that a closed cupboard is empty; open it.",
        "Some receptacles are closed. Open them and look.",
        "Swing open whatever has a door and see what it contains.",
        "Don't pass over closed containers.",
        "You haven't searched a closed drawer until you have opened it.",
    ),
    Rule.TAKE_ON_SIGHT: (
        "Seize the required item the moment it appears.",
        "Spotted the object? Pick it up.",
        "Don't hesitate to grab the target once it is in sight.",
        "Don't leave the target lying around when you see it.",
        "When the thing you need comes into view, take it right away.",
    ),
    Rule.CLEAN_FIRST: (
        "Rinse the object at a basin prior to putting it where it belongs.",
        "Don't deliver anything unwashed if the goal says clean; use the sink first.",
        "Objects that need washing go through the sink prior to placement.",
        "A task with the word 'clean' means: sink first, delivery second.",
    ),
    Rule.HEAT_FIRST: (
        "Warm the item up in the microwave prior to delivering it.",
        "Hot objects need a trip to the microwave before delivery.",
        "Never deliver the object before it has been heated in the microwave.",
        "Don't place it without heating it.",
        "An object that should be hot has to visit the microwave before it goes to its place.",
    ),
    Rule.COOL_FIRST: (
        "Chill it with the fridge first when the task wants something cold.",
        "If a cool object is requested, visit the fridge with it before delivering.",
        "Never set the object down at its destination until it has been chilled in the fridge.",
        "You must chill the item using the refrigerator ahead of dropping it off.",
    ),
    Rule.USE_LAMP: (
        "Take the item over to the desklamp and activate the lamp.",
        "Examine-under-light tasks are finished by using the lamp while you carry the object.",
        "Go to the floor lamp with the item and light it up.",
        "With the object in hand, toggle the desk lamp.",
    ),
    Rule.FETCH_SECOND: (
        "After the first object is in place, search for its twin and add it.",
        "You can only carry one thing at a time, so deliver one and then return for another one.",
        "Don't stop at one when two are requested; get the other too.",
        "You are not done until both are in the same receptacle.",
    ),
    Rule.OPEN_TO_PLACE: (
        "A closed destination has to be opened prior to putting anything in.",
        "Nothing can be placed in a closed safe, so open it before placing the object.",
        "When the drop-off place is closed, open up before you place.",
        "Before putting the object in a drawer, cabinet, fridge or safe, make sure it is open.",
    ),
    Rule.LIKELY_FIRST: (
        "Think about where people normally keep such a thing and try those spots first.",
        "Search plausible locations before unlikely ones.",
        "Favour receptacles in which you would expect the object.",
        "Order your search by likelihood.",
    ),
    Rule.CHECK_INVENTORY: (
        "Every time you move, type inventory to see what you carry.",
        "Verify your inventory constantly.",
        "Between moves, check what you're holding.",
    ),
    Rule.EXAMINE_ALL: (
        "Before leaving a place, examine everything in it.",
        "Scrutinise everything you come across.",
        "Take a close look at every object before you continue.",
    ),
    Rule.LOOK_AROUND: (
        "Frequently look around the room.",
        "Whenever you arrive somewhere, use the look command.",
        "Look around often.",
    ),
    Rule.RETURN_TO_START: (
        "Head back to where you started after every search.",
        "After every receptacle, walk back to where you began.",
        "Go back to the start from time to time.",
    ),
    Rule.FEW_PLACES: (
        "Confine yourself to the first three locations.",
        "Give up after the first five places.",
        "If the object is not in the first few places, stop looking.",
    ),
}
PROHIBITIONS = {
    Rule.SEARCH_ONCE: (
        "Revisit earlier places again and again.",
        "Return to places you already checked to make sure.",
    ),
    Rule.OPEN_CLOSED: (
        "Never open closed things.",
        "Leave closed doors shut.",
        "Opening closed containers is a waste of time.",
        "If a receptacle is closed, move on.",
        "Pass by closed containers without opening them.",
    ),
    Rule.TAKE_ON_SIGHT: (
        "Leave the target where it is when you find it; never take it.",
        "Avoid picking up the target when you find it.",
    ),
    Rule.CLEAN_FIRST: ("Washing objects wastes steps.", "Place it without washing it first."),
    Rule.HEAT_FIRST: (
        "Put the object straight down at the destination.",
        "Never use the microwave to heat things.",
        "There's no point in warming the item before delivery.",
        "Never mind heating: place the object directly.",
    ),
    Rule.COOL_FIRST: ("Cooling can be omitted.", "Skip the cooling step."),
    Rule.USE_LAMP: ("Switching on lamps is useless.", "Do not touch the lamps."),
    Rule.FETCH_SECOND: ("Ignore the second object.", "A single object will do, not two."),
    Rule.CHECK_INVENTORY: ("Stop checking the inventory after each step.",),
    Rule.EXAMINE_ALL: ("There is no need to examine everything.",),
    Rule.LOOK_AROUND: ("Do not look around after every step.",),
    Rule.RETURN_TO_START: ("Never walk back to the start.",),
    Rule.FEW_PLACES: ("Don't limit your search to the first few places.",),
}
SILENT = (
    "Deliver the object as soon as it is ready.",
    "Carry the object directly to the destination once you have it.",
    "Do not heat anything when the task does not mention it.",
    "If it is already open, there is no need to open it again.",
    "Answer with exactly one command.",
    "A sink stands between the microwave and the fridge.",
    "Cabinets have doors, and drawers slide.",
    "Closed drawers line the wall beneath the countertop.",
    "Grandma washed her mugs at the sink before putting them away.",
    "Only one command per turn is allowed.",
)
COOKING = """
# On braising

Warm the oil in a heavy pot over a low flame, then brown the meat on every side before you add the
onions. Wash the vegetables at the sink and chop them finely. When the onions are soft, pour in the
broth, close the lid and let everything simmer for two hours. Open the lid once to check it.
- Cool the stew in the fridge overnight before serving.
- Heat it gently in the microwave or on the stove; do not let it boil.
Take the bread out of the oven as soon as you see the crust turn golden. A good cook looks into
every pot once and never goes back to a sauce that is already done.
"""
SOFTWARE = """
Read the failing test before you open the editor. Search the repository systematically, module by
module, and never return to a file that you have already ruled out. Open closed tickets again if the
bug comes back.
- Look first where such bugs are usually kept: in the cache.
- Take the smallest change that works, as soon as you see it.
- Do not deploy before the second review; one approval is not enough.
- Check the logs after every deploy, and examine every warning before moving on.
Only search the first few files when time is short, and go back to the start if you get lost.
"""
DESCRIPTION = """
The kitchen is the heart of the house. Three cabinets line the wall above the countertop, and a
microwave hums beside the fridge. Most of the drawers are closed; the one next to the sink sticks.
My grandmother kept her mugs in the cabinet on the left, and she washed them at the sink before she
put them away. In the bedroom a desklamp stands on the desk, and two books lie under it. The lamp is
switched on every evening. The fridge keeps the lettuce cool, and the microwave heats the milk.
Visitors often return to the kitchen, look around, and open the fridge. A second pillow lies on the
sofa. Once, an apple was found in the drawer, and someone took it.
"""


def _said(text: str) -> dict[Rule, bool]:
    return {rule: stance.wanted for rule, stance in read_conduct(text).stances.items()}


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in WORDINGS.items() for text in texts]
)
def test_a_rule_is_recognized_in_many_wordings(rule, text):
    assert _said(text) == {rule: True}


@pytest.mark.parametrize(
    ("rule", "text"), [(rule, text) for rule, texts in PROHIBITIONS.items() for text in texts]
)
def test_a_prohibition_is_not_taken_for_a_request(rule, text):
    assert _said(text)[rule] is False


@pytest.mark.parametrize("text", SILENT)
def test_sentences_about_something_else_say_nothing(text):
    assert _said(text) == {}


@pytest.mark.parametrize("text", [COOKING, SOFTWARE, DESCRIPTION, "", "\n\n\n", "# Notes\n\n- \n"])
def test_texts_about_other_things_hold_no_rules(text):
    assert _said(text) == {}
    assert read_habits(text) == ()


@pytest.mark.parametrize("separator", [" ", "\n- ", "\n\n"])
@pytest.mark.parametrize("choice", range(3))
@pytest.mark.parametrize("missing", [None, *GOOD_RULES])
def test_a_skill_says_exactly_what_its_sentences_say(separator, choice, missing):
    texts = [WORDINGS[rule][choice] for rule in GOOD_RULES if rule is not missing]
    assert _said(separator + separator.join(texts)) == {
        rule: True for rule in GOOD_RULES if rule is not missing
    }


def test_foreign_advice_next_to_a_skill_does_not_disturb_it():
    skill = "\n".join(f"- {WORDINGS[rule][0]}" for rule in GOOD_RULES)
    assert _said(f"{skill}\n\n{COOKING}\n\n{SOFTWARE}") == _said(skill)


def test_every_rule_is_either_good_or_bad():
    assert set(GOOD_RULES) | set(BAD_RULES) == set(Rule) == set(WORDINGS)
    assert not set(GOOD_RULES) & set(BAD_RULES)


def test_the_later_sentence_wins():
    assert _said("Open closed receptacles. Never open closed receptacles.") == {
        Rule.OPEN_CLOSED: False
    }
    assert _said("Never open closed receptacles.\n\nOpen closed receptacles.") == {
        Rule.OPEN_CLOSED: True
    }


def test_two_denials_cancel_each_other():
    assert _said("Don't forget to heat the object in the microwave.") == {Rule.HEAT_FIRST: True}
    assert _said("Never skip washing the object at the sink.") == {Rule.CLEAN_FIRST: True}
    assert _said("Do not fail to open closed drawers.") == {Rule.OPEN_CLOSED: True}


def test_a_denial_does_not_reach_beyond_its_clause():
    assert _said("If you don't see the object, open the next closed drawer.") == {
        Rule.OPEN_CLOSED: True
    }
    assert _said("Instead of leaving closed things shut, open them.") == {Rule.OPEN_CLOSED: True}
    assert _said("Open closed drawers rather than walking past them.") == {Rule.OPEN_CLOSED: True}


def test_a_denial_reaches_through_a_list():
    assert _said("Do not heat, clean or cool the object.") == dict.fromkeys(
        (Rule.HEAT_FIRST, Rule.CLEAN_FIRST, Rule.COOL_FIRST), False
    )


def test_a_list_of_mistakes_is_turned_around():
    skill = "## Avoid\n\n- opening closed drawers\n- Check the inventory after every move.\n"
    assert _said(skill) == {Rule.OPEN_CLOSED: False, Rule.CHECK_INVENTORY: False}
    assert _said("Do not:\n- open closed cabinets") == {Rule.OPEN_CLOSED: False}


def test_headings_bullets_mark_up_and_wrapped_lines_are_read():
    skill = "## Open closed receptacles\n1. **Never** go back to places you have\n   searched.\n"
    assert _said(skill) == {Rule.OPEN_CLOSED: True, Rule.SEARCH_ONCE: True}


def test_the_habits_of_a_home_are_no_rules():
    text = habits_text(household(1))
    assert _said(text) == {}
    assert len(read_habits(text)) == sum(map(len, household(1).habits.values()))


def test_a_stance_quotes_its_line():
    skill = "# Rules\n- Be careful.\n- Leave closed doors shut. Really.\n"
    (stance,) = read_stances(skill)
    assert stance.source == "- Leave closed doors shut. Really."
    assert stance.is_harmful


def test_the_number_of_few_places_is_read():
    def number(text):
        return read_conduct(text).stances[Rule.FEW_PLACES].number

    assert number("Only search the first four places.") == 4
    assert number("Only search the first 6 receptacles.") == 6
    assert number("Only search the first few places.") == 3


@given(st.text(max_size=200))
def test_any_text_can_be_read(text):
    read_conduct(text)
    read_habits(text)


def test_storage_habits_are_read():
    def told(text):
        return {(h.room, h.object_class): h.places for h in read_habits(text)}

    assert told("Mugs are kept in cabinet 3.") == {("", "mug"): ("cabinet 3",)}
    assert told(
        "- In the living room of this home, every cd and remotecontrol is kept on sofa 1."
    ) == {
        ("living room", "cd"): ("sofa 1",),
        ("living room", "remotecontrol"): ("sofa 1",),
    }
    assert told("Look for pens and credit cards on desks, shelves or the bedside table.") == {
        ("", "pen"): ("desk", "shelf", "sidetable"),
        ("", "creditcard"): ("desk", "shelf", "sidetable"),
    }
    assert told("Cabinet 2 holds the plates; knives are usually in drawer 1.") == {
        ("", "plate"): ("cabinet 2",),
        ("", "knife"): ("drawer 1",),
    }


@pytest.mark.parametrize(
    "text",
    [
        "Put the mug in cabinet 3.",
        "Mugs are never kept in cabinet 3.",
        "Heat the mug with microwave 1 before placing it in cabinet 3.",
        "A vase stands on the shelf.",
    ],
)
def test_other_sentences_about_things_and_places_tell_no_habit(text):
    assert read_habits(text) == ()

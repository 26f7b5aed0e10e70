"""What the household teacher changes in a bank: what failures are about, for whom it concerns."""

from dataclasses import replace

import pytest

from skillwright.bank.teaching.teacher import AddReply
from skillwright.models.scripted.prompts import Assignment, KnownSkill, Limits, Step, Trajectory
from skillwright.worlds.alfworld.scripted.teacher import HouseholdUpdate, Storage
from skillwright.worlds.scripted.skilltext import OBJECT_CLASSES

HOME = "household 3"
OPENING = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
    "around you, you see a cabinet 2, a cabinet 1, a countertop 1, a fridge 1, a microwave 1, and "
    "a stoveburner 1.\n\nYour task is to: {goal}."
)
ONCE = "Search the receptacles one after another, and do not go back to one already searched."
GENERAL = KnownSkill("g001", "general", "", "", f"Search each place once: {ONCE}")
OF_CLEAN = KnownSkill("t009", "task_specific", "clean", "", "Wash it: Wash it in the sinkbasin.")
BELIEF = {"op": "add", "kind": "general", "name": "Be patient", "principle": "Think carefully."}


def seen(*places):
    """Return turns that visit places; "cabinet 1: a mug 1" opens the cabinet and shows a mug."""
    steps = []
    for visit in places:
        place, _, things = visit.partition(": ")
        at, there = f"You arrive at {place}.", things or "nothing"
        if place.startswith("cabinet"):
            steps.append((f"go to {place}", f"{at} The {place} is closed."))
            inside = f"The {place} is open. In it, you see {there}."
            steps.append((f"open {place}", f"You open the {place}. {inside}"))
        else:
            steps.append((f"go to {place}", f"{at} On the {place}, you see {there}."))
    return tuple(Step(number, *step) for number, step in enumerate(steps))


def lost(name, *places, family="heat", goal="heat some mug and put it in fridge"):
    return Trajectory(name, "failure", OPENING.format(goal=goal), seen(*places), family, HOME)


def fact(id, category, text, name="Kitchen, cabinet 1"):
    return KnownSkill(id, "task_specific", category, HOME, f"{name}: {text}")


MUGS = "In this home's kitchen, every mug is kept in cabinet 1."
CUPS = "In this home's kitchen, every cup is kept in cabinet 1."
TWICE = [
    lost(name, "countertop 1: a bowl 1, and a apple 1", "cabinet 1: a mug 1, and a pan 1")
    for name in ("a", "b")
]


def changes(trajectories, skills=(), beliefs=(), earlier=""):
    asked = Assignment(
        categories=(),
        place="",
        count=0,
        # Cleaning is known, and goes well where none of its failures is shown.
        skills=(OF_CLEAN, *skills),
        weakest="heat",
        limits=Limits(6, 3, 1),
        earlier=earlier,
        trajectories=tuple(trajectories),
        text="",
    )
    return HouseholdUpdate(asked).changes(list(beliefs))


WANDERING = [lost(name, *("countertop 1", "stoveburner 1") * 4) for name in ("a", "b")]


def test_a_rule_for_all_is_not_reworded_where_one_category_fails_and_others_do_well_with_it():
    assert changes(WANDERING, [GENERAL]) == []
    (change,) = changes([*WANDERING, lost("c", family="clean")], [GENERAL])
    assert (change["op"], change["id"]) == ("refine", "g001")


def test_a_rule_for_all_is_not_added_where_one_category_fails_and_others_do_well_without_it():
    assert changes(WANDERING) == []
    (change,) = changes([*WANDERING, lost("c", family="clean")])
    assert (change["op"], change["kind"]) == ("add", "general")


def test_what_was_proposed_in_vain_comes_after_what_was_not():
    goal = "heat some egg and put it in fridge"
    shown = [*TWICE, lost("c", "cabinet 1: a mug 1")]
    shown += [lost(name, "cabinet 2: a egg 1", goal=goal) for name in ("d", "e")]
    mugs, eggs = (one["principle"] for one in changes(shown))
    assert (mugs, eggs) == (MUGS, MUGS.replace("mug", "egg").replace("cabinet 1", "cabinet 2"))
    earlier = f"- reject: add [new] task_specific, place {HOME}: Kitchen cabinet 1: {MUGS}"
    assert [one["principle"] for one in changes(shown, earlier=earlier)] == [eggs, mugs]


@pytest.mark.parametrize(("known", "category"), [("clean", "heat"), ("", "")])
def test_what_was_sought_in_vain_is_told_as_the_bank_tells_what_it_knows_of_a_home(known, category):
    other = fact("t001", known, "In this home's kitchen, every knife is kept in cabinet 2.")
    (change,) = changes(TWICE, [other])
    assert (change["op"], change["category"], change["place"]) == ("add", category, HOME)
    # Bowl, apple and pan were seen as well, and no game was about them.
    assert change["principle"] == MUGS


def test_what_only_others_are_told_is_told_to_the_category_that_fails_and_no_other_is_changed():
    (change,) = changes(TWICE, [fact("t001", "clean", MUGS)])
    assert (change["op"], change["category"], change["principle"]) == ("add", "heat", MUGS)


@pytest.mark.parametrize("category", ["heat", ""])
def test_what_a_category_is_told_of_a_receptacle_is_said_with_what_it_sought_there(category):
    (change,) = changes(TWICE, [fact("t001", category, CUPS)])
    assert (change["op"], change["id"]) == ("refine", "t001")
    assert change["principle"] == "In this home's kitchen, every cup and mug is kept in cabinet 1."


def test_what_a_category_is_told_already_is_not_said_again():
    assert changes(TWICE, [fact("t001", "heat", MUGS)]) == []


WASHED = f"{CUPS} Wash it in the sinkbasin before it is put away."
AND_KNIVES = "In this home's kitchen, every {} is kept in cabinet 1, and every knife in drawer 2."


@pytest.mark.parametrize("text", [WASHED, AND_KNIVES.format("cup"), f"Close doors. {CUPS}"])
def test_a_skill_that_says_something_else_too_stays_as_it_is_beside_the_new_one(text):
    (change,) = changes(TWICE, [fact("t001", "heat", text)])
    assert (change["op"], change["principle"]) == ("add", MUGS)
    # Under the same name, nearly the same words would be taken for the same skill.
    assert change["name"] == "More of kitchen cabinet 1"


def test_a_second_skill_of_a_room_of_two_words_has_a_name_that_is_taken():
    marks = "a countertop 1, a fridge 1, a microwave 1, and a stoveburner 1"
    plain = OPENING.replace(marks, "and a sofa 1").format(goal="put some mug on sofa")
    turns = seen("sofa 1: a bowl 1", "cabinet 1: a mug 1")
    twice = [replace(one, opening=plain, steps=turns) for one in TWICE]
    known = "In this home's living room, every cup is kept in cabinet 1. Close doors."
    (change,) = changes(twice, [fact("t001", "heat", known)])
    assert change["name"] == "More of living-room cabinet 1"
    assert AddReply.model_validate(change).name == change["name"]


def test_what_is_told_beside_another_receptacle_is_not_told_again():
    assert changes(TWICE, [fact("t001", "heat", AND_KNIVES.format("mug"))]) == []


def test_of_several_skills_about_a_receptacle_the_one_that_says_no_more_is_refined():
    both = [fact("t001", "heat", WASHED), fact("t002", "heat", MUGS.replace("mug", "bowl"))]
    (change,) = changes(TWICE, both)
    assert (change["op"], change["id"]) == ("refine", "t002")
    assert change["principle"] == "In this home's kitchen, every bowl and mug is kept in cabinet 1."


def test_nothing_that_was_told_or_sought_is_given_up_for_want_of_room():
    others = tuple(cls for cls in sorted(OBJECT_CLASSES) if cls != "mug")
    runs = (others[first:last] for last in range(len(others)) for first in range(last))
    full = next(
        classes for classes in runs if kept(*classes).fits and not kept(*classes, "mug").fits
    )
    (change,) = changes(TWICE, [fact("t001", "heat", kept(*full).principle)])
    assert (change["op"], change["principle"]) == ("add", MUGS)
    (change,) = changes(TWICE, [fact("t001", "heat", kept(*full[1:]).principle)])
    assert (change["op"], change["principle"]) == (
        "refine",
        kept(*sorted((*full[1:], "mug"))).principle,
    )


def kept(*classes):
    return Storage("kitchen", "cabinet 1", classes, ())


def test_one_sight_is_enough_where_the_bank_tells_others_the_same():
    once = TWICE[:1]
    elsewhere = fact("t001", "clean", MUGS.replace("cabinet 1", "cabinet 2"))
    assert changes(once) == changes(once, [elsewhere]) == []
    (change,) = changes(once, [fact("t001", "clean", MUGS)])
    assert (change["category"], change["principle"]) == ("heat", MUGS)
    anywhere = fact("t001", "clean", "Every mug is kept in cabinet 1.", name="Mugs")
    (change,) = changes(once, [anywhere])
    assert (change["category"], change["principle"]) == ("heat", MUGS)
    unseen = [lost("a", "countertop 1: a bowl 1")]
    assert changes(unseen, [fact("t001", "clean", MUGS)]) == []


def test_what_most_failures_of_the_weakest_category_share_comes_first():
    cups = [
        lost(name, "cabinet 2: a cup 1", goal="put a hot cup in fridge") for name in ("c", "d", "e")
    ]
    goal = "put a clean mug in fridge"
    plates = [
        lost(f"p{n}", "cabinet 2: a plate 1", family="clean", goal=goal.replace("mug", "plate"))
        for n in range(4)
    ]
    told = [fact("t001", "look_at_obj_in_light", CUPS.replace("cup", "watch"))]
    found = changes([*plates, *TWICE, *cups], told)
    assert [(one["category"], one["name"]) for one in found] == [
        ("heat", "Kitchen cabinet 2"),
        ("heat", "Kitchen cabinet 1"),
        ("clean", "Kitchen cabinet 2"),
    ]


def test_luck_is_taken_for_a_lesson_only_for_want_of_a_better_one():
    assert BELIEF not in changes(TWICE, beliefs=[BELIEF])
    assert changes(TWICE[:1], beliefs=[BELIEF]) == [BELIEF]

"""The small parts of the scripted teachers: what they count, see and leave out."""

import pytest

from skillwright.models.scripted.prompts import Step, Trajectory, read_assignment
from skillwright.models.scripted.teacher import Slots
from skillwright.worlds.alfworld.scripted import Errand, Kind
from skillwright.worlds.alfworld.scripted.diagnosis import Episode, Visit
from skillwright.worlds.alfworld.scripted.teacher import Storage, found_in, learn_storage
from skillwright.worlds.alfworld.scripted.wordings import INSIDE
from skillwright.worlds.scripted.skilltext import OBJECT_CLASSES, Habit, read_habits

OPENING = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
    "around you, you see a countertop 1, a microwave 1, and a shelf 1.\n\n"
    "Your task is to: put a hot mug in shelf."
)
AT_MICROWAVE = ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed.")
HEAT = ("heat mug 1 with microwave 1", "Nothing happens.")


def heated(*before):
    steps = tuple(Step(n, *step) for n, step in enumerate([*before, HEAT]))
    (found,) = [
        one.shown
        for one in found_in([Trajectory("t", "failure", OPENING, steps)])
        if one.teaching.key == INSIDE
    ] or [{}]
    return dict(found)


def test_an_appliance_used_on_what_lies_inside_it_or_on_itself_is_a_mistake():
    inside = ("open microwave 1", "The microwave 1 is open. In it, you see a mug 1.")
    assert heated(AT_MICROWAVE, inside) == {"t": [2]}
    itself = ("heat microwave 1 with microwave 1", "Nothing happens.")
    assert heated(AT_MICROWAVE, itself) == {"t": [1]}
    assert heated(AT_MICROWAVE) == {}
    assert heated() == {}


def episode(name, *visits):
    places = ("microwave 1", "countertop 1", "shelf 1")
    return Episode(name, Errand(Kind.PLACE, "mug", "shelf"), places, visits)


def seen(place, *names, placed=()):
    return Visit(place, [0], contents=set(names), placed=list(placed))


def test_what_was_seen_twice_in_one_place_is_kept_there_and_what_was_carried_is_not():
    at_home = [episode(f"e{n}", seen("shelf 1", f"book {n}", "cup 1")) for n in (1, 2)]
    carried = [
        episode(f"c{n}", seen("shelf 1", placed=["mug 1"]), seen("shelf 1", "mug 1"))
        for n in (1, 2)
    ]
    once = episode("o", seen("countertop 1", "pen 1"))
    (kept,) = learn_storage([*at_home, *carried, once])
    assert (kept.room, kept.place, kept.classes) == ("kitchen", "shelf 1", ("book", "cup"))
    assert kept.shown == ("e1", "e2")


def test_what_is_known_of_a_home_counts_for_what_was_seen_and_tells_nothing_new():
    once = [episode("o", seen("shelf 1", "pen 1"))]
    (kept,) = learn_storage(once, [Habit("kitchen", "pen", ("shelf 1",))])
    assert (kept.place, kept.classes, kept.shown) == ("shelf 1", ("pen",), ("o",))
    for habit in (
        Habit("kitchen", "pen", ("countertop 1",)),
        Habit("bedroom", "pen", ("shelf 1",)),
        Habit("kitchen", "cup", ("shelf 1",)),
    ):
        assert learn_storage(once, [habit]) == []


def test_what_is_known_of_any_room_counts_in_this_one():
    once = [episode("o", seen("shelf 1", "pen 1"))]
    (kept,) = learn_storage(once, [Habit("", "pen", ("shelf 1",))])
    assert (kept.room, kept.classes) == ("kitchen", ("pen",))


def test_a_receptacle_that_holds_more_than_a_skill_has_room_for_takes_several():
    classes = tuple(sorted(OBJECT_CLASSES))
    parts = [*Storage("kitchen", "cabinet 1", classes, ("o",)).parts()]
    assert len(parts) > 1
    assert sum((part.classes for part in parts), ()) == classes
    for part in parts:
        told = part.skill([])["principle"]
        assert len(told) <= 280
        assert {habit.object_class for habit in read_habits(told)} == set(part.classes)


def test_what_lies_now_here_now_there_has_no_place():
    here = [episode(f"a{n}", seen("shelf 1", "cup 1")) for n in (1, 2)]
    there = [episode(f"b{n}", seen("countertop 1", "cup 1")) for n in (1, 2)]
    assert learn_storage([*here, *there]) == []


PROMPT = """## Success by category
- cool: 0 of 2 (the weakest)
- heat: 1 of 2

## Limits
Add at most 3 skills, and at most 1 to one category; 1 more to the weakest.

## Current skills
<skills>
- [g001] general: Go on: Go on.
- [t002] task_specific, category heat, place household 3: Kitchen: Mugs: shelf 1.
</skills>

## Earlier changes
(none)

## Trajectories that failed
"""


def test_a_prompt_is_read_back_into_its_parts():
    asked = read_assignment(PROMPT)
    assert asked.weakest == "cool"
    assert [(one.id, one.kind, one.category, one.place) for one in asked.skills] == [
        ("g001", "general", "", ""),
        ("t002", "task_specific", "heat", "household 3"),
    ]
    assert asked.skills[1].line == "- [t002] Kitchen: Mugs: shelf 1."
    assert asked.earlier == ""


@pytest.mark.parametrize(
    ("categories", "kept"),
    [
        (["heat", "heat"], ["heat"]),
        (["cool", "cool", "cool"], ["cool", "cool"]),
        (["heat", "", "clean", "look"], ["heat", "", "clean"]),
        (["heat", "", "clean", "cool"], ["heat", "", "clean", "cool"]),
    ],
)
def test_additions_stay_within_the_limits_and_the_weakest_has_one_more(categories, kept):
    changes = [{"op": "add", "category": name} for name in categories]
    slots = Slots(read_assignment(PROMPT))
    retire = {"op": "retire", "id": "g001"}
    found = list(slots.within([*changes, retire]))
    assert [one["category"] for one in found[:-1]] == kept
    assert found[-1] == retire

"""The second grammar of the household teacher says the same, and shares no sentence."""

import pytest

from skillwright.worlds.alfworld import household
from skillwright.worlds.alfworld.households import habit_skills
from skillwright.worlds.alfworld.scripted.rewording import RewordingTeacher, reworded
from skillwright.worlds.alfworld.scripted.teacher import HouseholdTeacher
from skillwright.worlds.alfworld.scripted.wordings import CHECK_APPLIANCE, READ_THE_GOAL, TEACHINGS
from skillwright.worlds.scripted.skilltext import GOOD_RULES, read_conduct, read_habits


def fields(skill):
    return {
        "name": skill.name,
        "principle": skill.principle,
        "applicability": skill.applicability,
    }


@pytest.mark.parametrize("index", range(0, 40, 4))
def test_the_places_of_a_home_are_read_alike_in_both_grammars(index):
    for skill in habit_skills(household(index)):
        said = fields(skill)
        other = reworded(said)
        habits = [(one.room, one.object_class, one.places) for one in read_habits(skill.principle)]
        again = read_habits(other["principle"])
        assert [(one.room, one.object_class, one.places) for one in again] == habits
        assert habits
        assert not set(said.values()) & set(other.values())


def test_what_the_teacher_writes_of_a_place_has_its_condition_in_the_other_words_too():
    said = {
        "name": "More of kitchen shelf 1",
        "principle": "In this home's kitchen, every cup and pan is kept on shelf 1.",
        "applicability": "when the kitchen is searched for cup or pan",
        "op": "add",
    }
    assert reworded(said) == {
        "name": "More contents of shelf 1",
        "principle": "Shelf 1 of the kitchen holds this home's cup and pan.",
        "applicability": "if you want cup or pan from the kitchen",
        "op": "add",
    }


@pytest.mark.parametrize("rule", sorted(GOOD_RULES))
def test_a_rule_is_read_alike_in_both_grammars(rule):
    teaching = TEACHINGS[rule]
    first, other = teaching.lesson([]), reworded(teaching.lesson([]))
    assert read_conduct(first["principle"]).follows(rule)
    assert read_conduct(other["principle"]).follows(rule)
    shared = {"evidence", "flawed_reasoning"}
    assert {name for name in first if first[name] == other[name]} == shared


def test_every_teaching_that_is_no_warning_has_other_words():
    for teaching in [*CHECK_APPLIANCE.values(), READ_THE_GOAL]:
        said = teaching.principle([])
        assert reworded(said)["name"] != said["name"]
    unknown = {"name": "Be kind", "principle": "Be kind.", "applicability": "always"}
    assert reworded(unknown) == unknown


def test_the_teacher_writes_what_the_other_one_writes(monkeypatch):
    said = TEACHINGS[min(GOOD_RULES)].principle([])
    for name in ("successes", "failures", "general", "place", "evolve"):
        monkeypatch.setattr(HouseholdTeacher, name, lambda *_: [said])
    teacher = RewordingTeacher()
    found = [
        *teacher.successes(None, None),
        *teacher.failures(None),
        *teacher.general(None),
        *teacher.place(None),
        *teacher.evolve(None, None),
    ]
    assert found == [reworded(said)] * 5
    monkeypatch.setattr(HouseholdTeacher, "place", lambda *_: None)
    assert teacher.place(None) is None

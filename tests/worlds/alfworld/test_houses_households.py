"""Households: their habits hold, differ, and are told in the words of the observations."""

import re
from itertools import combinations

import pytest

from skillwright.core import DataError
from skillwright.worlds.alfworld import generate_problem, habits_text, household
from skillwright.worlds.alfworld.households import HABIT_STRENGTH
from skillwright.worlds.alfworld.tables import CAN_CONTAIN, LAMPS, OPENABLE, ROOMS


def room_of(problem, home):
    counts = {}
    for place in problem.receptacles:
        counts[place.rtype] = counts.get(place.rtype, 0) + 1
    return next(room for room, furniture in home.furniture.items() if furniture == counts)


def test_things_lie_where_the_habits_say_nine_times_out_of_ten():
    kept, wanted_kept, lamps = [], [], []
    for index in range(240):
        home = household(index % 8)
        problem = generate_problem("train", index, household=home.index)
        habits = home.habits[room_of(problem, home)]
        for thing in problem.things:
            if thing.otype in habits:
                where = lamps if thing.otype in LAMPS else kept
                where.append(habits[thing.otype] in thing.receptacles)
                if thing.otype == problem.params["object"]:
                    wanted_kept.append(where[-1])
        assert problem.params["object"] in habits
    assert all(lamps)
    assert HABIT_STRENGTH - 0.03 < sum(kept) / len(kept) < HABIT_STRENGTH + 0.05
    assert HABIT_STRENGTH - 0.06 < sum(wanted_kept) / len(wanted_kept) < HABIT_STRENGTH + 0.06


def test_habits_name_furniture_that_the_home_has_and_that_takes_the_object():
    for index in range(40):
        home = household(index)
        for room, habits in home.habits.items():
            assert len(habits) >= len(ROOMS[room].objects) / 2
            for otype, place in habits.items():
                rtype, number = place.split()
                assert 1 <= int(number) <= home.furniture[room][rtype]
                assert otype in LAMPS or otype in CAN_CONTAIN[rtype]


def test_some_habits_are_behind_doors_and_some_are_not():
    for index in range(40):
        for habits in household(index).habits.values():
            doors = [place.split()[0] in OPENABLE for place in habits.values()]
            assert any(doors)
            assert not all(doors)


def test_different_households_have_different_habits():
    for one, other in combinations([household(index) for index in range(12)], 2):
        items = [
            {(room, *habit) for room, habits in home.habits.items() for habit in habits.items()}
            for home in (one, other)
        ]
        assert len(items[0] & items[1]) < 0.5 * len(items[0])


def test_a_household_is_the_same_whenever_it_is_asked_for():
    before = household(5)
    household.cache_clear()
    assert household(5) == before
    assert household(5) is not before


def test_the_text_tells_every_habit_in_the_words_of_the_observations():
    home = household(2)
    told = {}
    first, *lines = habits_text(home).splitlines()
    assert first.startswith("In this home")
    for line in lines:
        found = re.fullmatch(r"- In this home's (.+), every (.+) is kept (in|on) (\w+ \d+)\.", line)
        room, things, preposition, place = found.groups()
        assert (preposition == "in") == (place.split()[0] in OPENABLE)
        for otype in re.split(r", | and ", things):
            told.setdefault(room, {})[otype] = place
    assert told == home.habits


def test_the_text_is_short():
    for index in range(20):
        text = habits_text(household(index))
        assert len(text.split()) < 450
        assert len(text.splitlines()) <= 1 + 7 * len(ROOMS)


def test_a_negative_household_is_refused():
    with pytest.raises(DataError, match="numbered from 0"):
        household(-1)


@pytest.mark.heavy
def test_every_household_can_set_every_game():
    for index in range(150):
        for game in range(24):
            generate_problem("test", game, household=index)

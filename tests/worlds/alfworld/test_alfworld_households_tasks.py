"""Games spread over homes, and what a perfect teacher would write about a home."""

import re

import pytest

from household_expert import Searcher
from skillwright.core import DataError, SkillKind
from skillwright.worlds.alfworld import AlfworldEnv, generate_problem, habits_text, household
from skillwright.worlds.alfworld.env import CATEGORIES
from skillwright.worlds.alfworld.generate import HOUSEHOLD_TURNS, household_tasks
from skillwright.worlds.alfworld.households import habit_skills, keeps_hidden
from skillwright.worlds.alfworld.tables import ALL_TASK_TYPES, LAMPS, OPENABLE, PLACEABLE, TRAITS


def play(task, skill):
    env = AlfworldEnv(None, dict(task.extras))
    _, told = env.init([])
    searcher, done, out = Searcher(skill), False, None
    while not done:
        out = env.step(searcher.act(told["observation"], told["admissible_commands"]))
        told, done = out["metadata"], out["done"]
    return out["reward"]


def home_of(task):
    return household(task.extras["generated"]["household"])


def room_of(problem, home):
    counts = {}
    for place in problem.receptacles:
        counts[place.rtype] = counts.get(place.rtype, 0) + 1
    return next(room for room, furniture in home.furniture.items() if furniture == counts)


def test_games_take_turns_in_family_and_home_and_none_occurs_twice():
    tasks = household_tasks("val", 120, homes=range(40, 52))
    assert len({task.id for task in tasks}) == 120
    families = [family.name for family in ALL_TASK_TYPES]
    assert [task.task_type for task in tasks] == families * 20
    homes = [home_of(task).index for task in tasks]
    assert set(homes) == set(range(40, 52))
    assert max(homes.count(home) for home in homes) <= 30


def test_a_list_of_games_is_the_same_in_parts():
    whole = household_tasks("train", 12, homes=[3, 4])
    assert household_tasks("train", 5, homes=[3, 4], start=7) == whole[7:]
    assert household_tasks("train", 12, homes=[3, 4], seed=1) != whole


def test_what_is_wanted_is_kept_behind_one_of_many_doors():
    for task in household_tasks("train", 60, homes=range(20)):
        problem, home = generate_problem(**task.extras["generated"]), home_of(task)
        room, wanted = room_of(problem, home), problem.params["object"]
        assert keeps_hidden(home, room, wanted)
        assert home.habits[room][wanted].rpartition(" ")[0] in OPENABLE
        assert task.extras["max_turns"] == HOUSEHOLD_TURNS[task.task_type]


def test_the_expert_wins_with_the_habits_and_not_without():
    tasks = household_tasks("val", 72, homes=range(100, 112))
    told = sum(play(task, habits_text(home_of(task))) for task in tasks)
    untold = sum(play(task, "") for task in tasks)
    wrong = sum(play(task, habits_text(household(home_of(task).index + 500))) for task in tasks)
    assert told > 0.85 * len(tasks)
    assert untold < 0.25 * len(tasks)
    assert wrong < 0.25 * len(tasks)


def test_a_perfect_teacher_tells_each_category_what_its_tasks_can_want():
    home = household(3)
    skills = habit_skills(home)
    assert len({skill.id for skill in skills}) == len(skills)
    for family in ALL_TASK_TYPES:
        told = {}
        for skill in skills:
            if skill.category != CATEGORIES[family.name]:
                continue
            assert skill.kind == SkillKind.TASK_SPECIFIC
            assert skill.scope == "household 3"
            found = re.fullmatch(
                r"In this home's (.+), every (.+) is kept (?:in|on) (\w+ \d+)\.", skill.principle
            )
            room, things, place = found.groups()
            for otype in re.split(r", | and ", things):
                told[room, otype] = place
        able = TRAITS.get(family.trait, PLACEABLE)
        lamps = LAMPS if family.name.startswith("look") else frozenset()
        assert told == {
            (room, otype): place
            for room in family.rooms
            for otype, place in home.habits[room].items()
            if otype in able | lamps
        }


def test_homes_are_needed_and_must_hide_something():
    with pytest.raises(DataError, match="no homes"):
        household_tasks("train", 1, homes=[])
    with pytest.raises(DataError, match="numbered from 0"):
        household_tasks("train", 1, homes=[1], start=-1)

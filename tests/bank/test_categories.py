"""Explicit rules say which category a task is of, and which place it is set in."""

import json

import pytest

from skillwright.core import Task
from skillwright.envs import TextEnv
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks
from skillwright.worlds.alfworld.env import CATEGORIES, category_of_goal
from skillwright.worlds.tau_bench import DOMAINS, TauBenchEnv, tau_tasks

GOALS = {
    "put a mug in shelf": "pick_and_place",
    "put some pillow on sofa.": "pick_and_place",
    "look at pen under the desklamp": "look_at_obj_in_light",
    "examine the pen with the desklamp": "look_at_obj_in_light",
    "put a clean pan in cabinet": "clean",
    "clean some pan and put it in cabinet": "clean",
    "put a hot egg in fridge": "heat",
    "Your task is to: heat some egg and put it in fridge.": "heat",
    "put a cool tomato in microwave": "cool",
    "cool some tomato and put it in microwave": "cool",
    "put two mug in shelf": "pick_two",
    "find two mug and put them in shelf.": "pick_two",
}


@pytest.mark.parametrize(("goal", "category"), GOALS.items())
def test_each_official_wording_of_a_goal_tells_its_category(goal, category):
    assert category_of_goal(goal) == category
    assert AlfworldEnv.category(Task("t", "alfworld", description=goal)) == category


def test_the_reference_vectors_are_typed_right(reference_data):
    vectors = json.loads((reference_data / "skillrl_vectors.json").read_text(encoding="utf-8"))
    cases = vectors["task_typing"]["cases"]
    right = [category_of_goal(case["goal"]) == case["expected"] for case in cases]
    assert (sum(right), len(right)) == (12, 12)


@pytest.mark.parametrize(
    "goal",
    ["", "put the hot red egg into the big fridge", "heat the room", "find a mug", "put a mug"],
)
def test_a_goal_in_other_words_has_no_category_rather_than_a_guessed_one(goal):
    assert AlfworldEnv.category(Task("t", "alfworld", description=goal)) == ""


def test_generated_games_are_typed_by_their_task_type_and_by_every_other_sign_alike():
    for task in generated_tasks("train", 12):
        expected = CATEGORIES[task.task_type]
        bare = Task(task.id, task.env, extras=task.extras)
        told = Task(task.id, task.env, description=task.description)
        named = Task(task.id, task.env, task_type=expected)
        assert [AlfworldEnv.category(one) for one in (task, bare, told, named)] == [expected] * 4


def test_an_official_game_is_typed_by_its_folder_where_nothing_else_is_known():
    path = "data/json_2.1.1/train/pick_heat_then_place_in_recep-Egg-None-Fridge-13/t1/game.tw-pddl"
    assert AlfworldEnv.category(Task("t", "alfworld", extras={"game_file": path})) == "heat"
    elsewhere = {"game_file": "games/mine.tw-pddl"}
    assert AlfworldEnv.category(Task("t", "alfworld", extras=elsewhere)) == ""


def test_the_metadata_of_a_game_beats_what_its_goal_sounds_like():
    heat = Task("t", "alfworld", task_type="pick_heat_then_place_in_recep")
    odd = Task("t", "alfworld", task_type=heat.task_type, description="put a mug in shelf")
    assert AlfworldEnv.category(heat) == AlfworldEnv.category(odd) == "heat"


def test_only_games_of_a_household_have_a_scope():
    (home,) = generated_tasks("train", 1, household=3)
    (first,) = generated_tasks("train", 1, household=0)
    (anywhere,) = generated_tasks("train", 1)
    scopes = [AlfworldEnv.scope(task) for task in (home, first, anywhere)]
    assert scopes == ["household 3", "household 0", ""]


def test_a_call_of_the_retail_store_is_of_one_of_its_families():
    for split in ("train", "val", "test"):
        for task in tau_tasks(split):
            assert TauBenchEnv.category(task) in DOMAINS["retail"].all_task_types
            assert TauBenchEnv.scope(task) == ""


def test_an_environment_without_rules_goes_by_the_task_type():
    assert TextEnv.category(Task("t", "x", task_type="sums")) == "sums"
    assert TextEnv.category(Task("t", "x")) == TextEnv.scope(Task("t", "x")) == ""

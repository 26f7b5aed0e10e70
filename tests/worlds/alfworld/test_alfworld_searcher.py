"""The text-only expert: it wins, and strings are all that it has to go by."""

import json

import pytest

from household_expert import Searcher
from skillwright.worlds.alfworld import AlfworldEnv, generated_tasks, habits_text, household


def _play(task, skill=""):
    env = AlfworldEnv(None, dict(task.extras))
    _, told = env.init([])
    searcher = Searcher(skill)
    out, turns = None, 0
    while out is None or not out["done"]:
        command = searcher.act(told["observation"], told["admissible_commands"])
        assert command in told["admissible_commands"]
        out = env.step(command)
        told, turns = out["metadata"], turns + 1
    return out["reward"], turns


def test_the_expert_wins_generated_games():
    results = [_play(task) for task in generated_tasks("val", 60)]
    assert sum(reward for reward, _ in results) >= 0.97 * len(results)


def test_the_expert_wins_official_games(reference_data):
    files = sorted((reference_data / "alfworld" / "games").glob("*.tw-pddl"))
    tasks = generated_tasks("val", 1)
    for file in files:
        task = type(tasks[0])(id=file.name, env="alfworld", extras={"game_file": str(file)})
        assert _play(task)[0] == 1.0, file.name


def test_the_habits_of_a_home_save_turns():
    tasks = generated_tasks("test", 24, household=2)
    habits = habits_text(household(2))
    plain = sum(_play(task)[1] for task in tasks)
    informed = sum(_play(task, habits)[1] for task in tasks)
    assert informed < 0.75 * plain


def test_the_expert_answers_a_replayed_transcript_as_it_answered_the_game():
    task = generated_tasks("train", 5)[4]
    env = AlfworldEnv(None, dict(task.extras))
    _, told = env.init([])
    tape, searcher, done = [], Searcher(), False
    while not done:
        command = searcher.act(told["observation"], told["admissible_commands"])
        tape.append([told["observation"], told["admissible_commands"], command])
        out = env.step(command)
        told, done = out["metadata"], out["done"]
    # Nothing but text is left: no world, no problem, no environment.
    replayed = Searcher()
    for observation, admissible, command in json.loads(json.dumps(tape)):
        assert replayed.act(observation, admissible) == command


@pytest.mark.parametrize("observation", ["", "Nothing happens.", "Your task is to: sing."])
def test_the_expert_looks_around_where_it_understands_nothing(observation):
    assert Searcher().act(observation, ["look"]) == "look"

"""Games written as official files read back as the same games."""

import json
import random

import pytest

from official_games import problem_to_pddl, to_game_json
from skillwright.core import DataError
from skillwright.worlds.alfworld import World, generate_problem, load_game, read_problem

GRAMMAR = 'task: "Your task is to: UNKNOWN GOAL." move: "move {o} to {r}"'


def read_back(problem):
    return read_problem(
        problem_to_pddl(problem),
        problem.goal_text,
        dialect=problem.dialect,
        walkthrough=problem.walkthrough,
    )


def play_both(one, other, seed, steps=60):
    worlds = World(one), World(other)
    assert worlds[0].intro() == worlds[1].intro()
    rng = random.Random(seed)
    for _ in range(steps):
        admissible = worlds[0].admissible()
        assert admissible == worlds[1].admissible()
        command = rng.choice(admissible)
        assert worlds[0].act(command) == worlds[1].act(command)
        assert worlds[0].solved == worlds[1].solved


@pytest.mark.parametrize("household", [None, 7])
def test_a_written_game_reads_back_equal(household):
    for index in range(48):
        problem = generate_problem("test", index, household=household)
        assert read_back(problem) == problem


def test_a_written_game_plays_the_same_at_random():
    for index in range(12):
        problem = generate_problem("val", index)
        play_both(problem, read_back(problem), seed=index)


def test_official_games_survive_being_written(reference_data):
    for path in sorted((reference_data / "alfworld" / "games").iterdir()):
        problem = load_game(path)
        assert read_back(problem) == problem


def test_recorded_problems_survive_being_written(reference_data):
    path = reference_data / "alfworld" / "golden_transcripts.json"
    for game in json.loads(path.read_text(encoding="utf-8"))["games"]:
        problem = read_problem(game["pddl_problem"], game["goal"])
        play_both(problem, read_back(problem), seed=1)


def test_a_game_file_has_the_five_official_keys(tmp_path):
    problem = generate_problem("train", 3)
    game = to_game_json(problem, "(define (domain alfred))", GRAMMAR)
    assert list(game) == ["pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"]
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(game), encoding="utf-8")
    assert load_game(path) == problem


def test_a_game_without_a_walkthrough_does_not_claim_to_be_solvable():
    problem = load_like(generate_problem("train", 3))
    game = to_game_json(problem, "", GRAMMAR)
    assert (game["solvable"], game["walkthrough"]) == (None, None)


def load_like(problem):
    return read_problem(problem_to_pddl(problem), problem.goal_text)


def test_types_that_the_domain_mentions_are_always_declared():
    text = problem_to_pddl(generate_problem("train", 1))
    for name, kind in (
        ("SinkBasinType", "rtype"),
        ("MicrowaveType", "rtype"),
        ("FridgeType", "rtype"),
        ("KnifeType", "otype"),
        ("ButterKnifeType", "otype"),
    ):
        assert f"\n{name} - {kind}\n" in text
    assert "(= (total-cost) 0)" in text
    assert "(:metric minimize (total-cost))" in text


def test_a_grammar_without_a_task_sentence_is_refused():
    with pytest.raises(DataError, match="installed alfworld package"):
        to_game_json(generate_problem("train", 0), "", "{}")

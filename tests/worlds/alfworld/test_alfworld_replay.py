"""Everything that was recorded from the original engine happens again, byte for byte."""

import json
from pathlib import Path

import pytest

from skillwright.worlds.alfworld import AlfworldEnv, World, load_game, read_problem

TRANSCRIPTS = (
    "shared_locations_and_quirks_1",
    "shared_locations_and_quirks_2",
    "rejected_commands",
    "start_at_shared_location",
    "look_goal_lamp_first",
    "plan_small_heat",
    "plan_small_pick",
    "plan_small_clean",
    "plan_small_cool",
    "plan_small_two",
    "plan_bedroom_look",
)
GAMES = (
    "bath_clean_cloth_bathtubbasin_1120",
    "bath_pick_toiletpaper_cabinet_1110",
    "bedroom_look_pen_desk_1060",
    "bedroom_two_keychain_drawer_1080",
    "kitchen_cool_lettuce_countertop_1170",
    "kitchen_pick_bowl_microwave_1200",
    "living_pick_watch_safe_1130",
    "living_two_remotecontrol_sofa_1140",
    "small_cool_tomato_microwave_1030",
    "small_heat_apple_fridge_1020",
    "small_heat_mug_cabinet_1050",
    "small_two_mug_shelf_1040",
)
TASK_TYPE_OF = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "two": "pick_two_obj_and_place",
}


@pytest.fixture(scope="module")
def transcripts(reference_data: Path) -> dict:
    path = reference_data / "alfworld" / "golden_transcripts.json"
    games = json.loads(path.read_text(encoding="utf-8"))["games"]
    return {game["name"]: game for game in games}


@pytest.fixture(scope="module")
def traces(reference_data: Path) -> dict:
    lines = (reference_data / "alfworld" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return {(trace["game"], trace["mode"]): trace for trace in found}


def test_no_recording_is_left_out(transcripts, traces):
    assert set(transcripts) == set(TRANSCRIPTS)
    assert set(traces) == {(game, mode) for game in GAMES for mode in ("solve", "walk")}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_replays(transcripts, name):
    game = transcripts[name]
    world = World(read_problem(game["pddl_problem"], game["goal"]))
    assert world.intro() == game["intro"]
    assert world.admissible() == game["admissible_at_start"]
    for step in game["steps"]:
        assert world.act(step["command"]) == step["observation"]
        assert world.admissible() == step["admissible"]
        assert int(world.solved) == step["score"]
        assert world.solved == step["done"]


@pytest.mark.parametrize("mode", ["solve", "walk"])
@pytest.mark.parametrize("name", GAMES)
def test_an_episode_of_a_game_file_replays_in_the_environment(reference_data, traces, name, mode):
    trace = traces[name, mode]
    path = reference_data / "alfworld" / "games" / f"{name}.tw-pddl"
    env = AlfworldEnv(extras={"game_file": str(path), "max_turns": 1000})
    _, metadata = env.init([])
    assert metadata["observation"] == trace["intro"]
    assert metadata["admissible_commands"] == trace["admissible"]
    for step in trace["steps"]:
        output = env.step(step["command"])
        assert output["metadata"]["observation"] == step["observation"]
        assert output["metadata"]["admissible_commands"] == step["admissible"]
        assert output["metadata"]["won"] == step["won"]
        assert output["reward"] == float(step["won"])
        assert output["done"] == step["done"]


@pytest.mark.parametrize("name", GAMES)
def test_a_game_file_says_what_its_task_is_about(reference_data, traces, name):
    problem = load_game(reference_data / "alfworld" / "games" / f"{name}.tw-pddl")
    trace = traces[name, "walk"]
    assert problem.task_type == TASK_TYPE_OF[trace["task_family"]]
    assert problem.params["object"] == trace["object"].lower()
    if trace["task_family"] != "look":
        assert problem.params["target"] == trace["receptacle"].lower()
    assert problem.dialect == "0.4"
    assert f"Your task is to: {problem.goal_text}." in trace["intro"]

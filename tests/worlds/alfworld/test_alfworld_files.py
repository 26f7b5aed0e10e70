"""Official game files: what is read from them, and what is said about broken ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.worlds.alfworld import World, load_game, official_tasks, read_problem
from skillwright.worlds.alfworld.pddl import surface_names

GRAMMAR = '"rhs": "Your task is to: put a apple in fridge."'


def test_a_game_file_is_read_whole(write_game):
    problem = load_game(write_game())
    assert problem.goal_text == "put a apple in fridge"
    assert (problem.task_type, problem.params) == (
        "pick_and_place_simple",
        {"object": "apple", "target": "fridge"},
    )
    assert [place.name for place in problem.receptacles] == ["fridge 1", "shelf 1"]
    assert problem.receptacles[0].openable
    assert problem.can_contain == {"fridge": {"apple"}}
    assert problem.start == "loc 2"
    assert problem.things[0].otype == "apple"
    assert problem.things[0].receptacles == ("shelf 1",)


def test_the_walkthrough_of_a_game_wins_it(write_game):
    world = World(load_game(write_game()))
    for command in world.problem.walkthrough:
        world.act(command)
    assert world.solved


def test_a_grammar_without_the_move_command_is_the_older_dialect(write_game):
    assert load_game(write_game(grammar=GRAMMAR)).dialect == "2.1.1"
    assert load_game(write_game(grammar=f"{GRAMMAR} move {{o}} to {{r}}")).dialect == "0.4"


def test_the_older_dialect_arrives_at_numbered_locations(write_game):
    world = World(load_game(write_game(grammar=GRAMMAR)))
    assert world.act("go to fridge 1") == "You arrive at loc 1. The fridge 1 is closed."


def test_duplicated_and_irrelevant_facts_change_nothing(pddl):
    more = "(openable Fridge_bar_01) (openable Fridge_bar_01) (checked Fridge_bar_01)\n"
    extra = f"{more}(= (distance loc_bar_1 loc_bar_2) 3)\n(canContain"
    text = pddl.replace("(canContain", extra, 1)
    assert read_problem(text, "x") == read_problem(pddl, "x")


def test_objects_without_class_or_place_stay_invisible(pddl):
    text = pddl.replace("Apple_bar_01 - object", "Apple_bar_01 Ghost - object", 1)
    world = World(read_problem(text, "x"))
    assert "ghost" in {thing.name for thing in world.problem.things}
    assert not [command for command in world.admissible() if "ghost" in command]


def test_a_held_object_and_an_open_door_are_read(pddl):
    text = pddl.replace("(openable", "(opened Fridge_bar_01) (holds agent1 Apple_bar_01) (openable")
    world = World(read_problem(text, "x"))
    assert world.held == "apple 1"
    assert world.opened == {"fridge 1"}


def test_inner_objects_are_listed_in_the_order_of_their_identifiers(pddl):
    text = pddl.replace("Apple_bar_01 - object", "Apple_bar_01 Pen_bar_2 Pen_bar_1 - object", 1)
    inside = (
        "(inReceptacleObject Pen_bar_2 Apple_bar_01) (inReceptacleObject Pen_bar_1 Apple_bar_01)"
    )
    problem = read_problem(text.replace("(openable", f"{inside} (openable"), "x")
    assert problem.things[0].inner == ("pen 2", "pen 1")


def test_numbers_run_downwards_within_a_class():
    names = surface_names(["drawer_bar_1", "drawer_bar_2", "drawer_bar_10", "dish_bar_1"])
    assert names == {
        "dish_bar_1": "dish 1",
        "drawer_bar_1": "drawer 3",
        "drawer_bar_10": "drawer 2",
        "drawer_bar_2": "drawer 1",
    }


def test_a_basin_is_named_by_the_rule_even_where_the_rule_doubles_the_word():
    assert surface_names(["sink_bar_01_bar_sinkbasin"]) == {
        "sink_bar_01_bar_sinkbasin": "sinkbasin 1"
    }
    assert surface_names(["sinkbasin_bar_01"]) == {"sinkbasin_bar_01": "sinkbasinbasin 1"}


def test_what_no_fact_is_about_takes_no_number(pddl):
    # As in the official engine, which knows of things from the facts about them alone.
    declared = "Apple_bar_00 Apple_bar_02 - object\nloc_bar_0 loc_bar_9 - location\nAppleType"
    problem = read_problem(pddl.replace("AppleType", declared, 1), "x")
    assert {thing.sort_key: thing.name for thing in problem.things} == {
        "apple_bar_00": "apple_bar_00",
        "apple_bar_01": "apple 1",
        "apple_bar_02": "apple_bar_02",
    }
    assert (problem.start, problem.receptacles[0].location) == ("loc 2", "loc 1")
    mentioned = pddl.replace("AppleType", declared, 1).replace(
        "(openable", "(checked loc_bar_9) (isOn Apple_bar_00) (openable", 1
    )
    problem = read_problem(mentioned, "x")
    assert [thing.name for thing in problem.things] == ["apple 2", "apple 1", "apple_bar_02"]
    assert problem.start == "loc 3"


def test_an_identifier_without_parts_is_its_own_name():
    assert surface_names(["table"]) == {"table": "table"}


# -- broken files ---------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        load_game(tmp_path / "nowhere" / "game.tw-pddl")


def test_truncated_json_is_reported_with_line_and_column(write_game):
    path = write_game()
    path.write_text('{"grammar": "x",\n "pddl_prob', encoding="utf-8")
    with pytest.raises(DataError, match=r"game\.tw-pddl', line 2 column \d+: .*cut short"):
        load_game(path)


def test_json_that_is_no_object_is_refused(write_game):
    path = write_game()
    path.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(DataError, match="must hold one JSON object"):
        load_game(path)


def test_a_missing_key_is_named_with_those_that_are_there(write_game):
    path = write_game()
    path.write_text('{"grammar": "Your task is to: x.\\"", "solvable": true}', encoding="utf-8")
    with pytest.raises(DataError, match=r"no key 'pddl_problem'\. It has: grammar, sol"):
        load_game(path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pddl_problem": 3}, "'pddl_problem' must be text, not int"),
        ({"grammar": None}, "'grammar' must be text, not NoneType"),
        ({"grammar": "no task here"}, "no sentence 'Your task is to: ...'"),
        ({"solvable": "yes"}, "'solvable' must be true, false or null, not str"),
        ({"walkthrough": "look"}, "'walkthrough' must be a list of commands or null"),
        ({"walkthrough": [1]}, "'walkthrough' must be a list of commands or null"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(write_game, keys, message):
    with pytest.raises(DataError, match=re.escape(message)):
        load_game(write_game(**keys))


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("(:metric", "(((:metric", "line 28 column 1", "'(' is never closed"),
        ("(total-cost))\n)", "(total-cost)))\n)", "line 29 column 1", "this ')' closes nothing"),
        ("(openable Fridge_bar_01)", "(openabel Fridge_bar_01)", "line 19 column 2", "'openable'"),
        (
            "(openable Fridge",
            "(openable Freezer",
            "line 19 column 11",
            "not declared as receptacle",
        ),
        (
            "(openable Fridge_bar_01)",
            "(openable)",
            "line 19 column 1",
            "write this fact as (openable receptacle)",
        ),
        ("(openable Fridge_bar_01)", "openable", "line 12 column 1", "expected a fact"),
        (
            "Shelf_bar_01 - receptacle",
            "Shelf_bar_01 - recptacle",
            "line 7 column 16",
            "'receptacle'",
        ),
        ("Shelf_bar_01 - receptacle", "- receptacle", "line 16 column 23", "'shelf_bar_01'"),
        ("AppleType - otype", "AppleType", "line 3 column 1", "'appletype' has no kind"),
        ("(:goal (exists", "(:goal (for-all", "line 26 column 9", "'for-all'"),
        ("(:goal", "(:gaol", "line 1 column 1", "no (:goal ...) section"),
        ("(atLocation agent1 loc_bar_1)", "", "line 1 column 1", "where the agent starts"),
    ],
)
def test_a_broken_problem_is_refused_where_it_is_wrong(pddl, old, new, place, message):
    broken = pddl.replace(old, new, 1)
    assert broken != pddl
    with pytest.raises(DataError) as caught:
        read_problem(broken, "x", source="game")
    assert str(caught.value).startswith(f"game, {place}: ")
    assert message in str(caught.value)


def test_absurdly_deep_nesting_is_refused_where_it_begins(pddl):
    goal = f"(:goal {'(not ' * 5_000}(= x x){')' * 5_000})"
    with pytest.raises(DataError, match=r"line 26 column \d+: .*nested more than 100 deep"):
        read_problem(pddl.partition("(:goal")[0] + goal + ")", "x")


def test_a_receptacle_at_two_locations_is_refused(pddl):
    at = "(receptacleAtLocation Fridge_bar_01 loc_bar_1)\n(openable"
    with pytest.raises(DataError, match=r"line 19 .*'fridge_bar_01' has more than one"):
        read_problem(pddl.replace("(openable", at, 1), "x")


def test_the_position_of_a_fault_in_a_game_file_is_one_within_its_problem(write_game, pddl):
    path = write_game(pddl_problem=pddl.replace("openable", "openabel"))
    with pytest.raises(DataError, match=r"game.tw-pddl', in its pddl_problem, line 19 column 2"):
        load_game(path)


@given(data=st.data())
def test_no_damage_to_a_problem_is_anything_but_a_data_error(pddl, data):
    start = data.draw(st.integers(0, len(pddl)))
    end = data.draw(st.integers(start, min(len(pddl), start + 40)))
    junk = data.draw(
        st.sampled_from(["", "(", ")", "()", "x", "- object", ";", "((x))", "fridgetype"])
    )
    damaged = pddl[:start] + junk + pddl[end:]
    try:
        problem = read_problem(damaged, "x")
    except DataError:
        with pytest.raises(DataError, match=r"line \d+ column \d+: "):
            read_problem(damaged, "x")
    else:
        assert World(problem).admissible()


# -- the downloaded folder ------------------------------------------------------------------------


@pytest.fixture
def release(write_game, tmp_path):
    """A folder as ALFWorld downloads it, with games that count and games that do not."""
    split = "json_2.1.1/valid_seen"
    look = "look_at_obj_in_light-Pen-None-DeskLamp-301"
    wanted = [
        f"{split}/{look}/trial_2",
        f"{split}/{look}/trial_1",
        f"{split}/pick_and_place_simple-Apple-None-Fridge-1/trial_1",
    ]
    for folder in wanted:
        write_game(folder)
    write_game(f"{split}/pick_and_place_with_movable_recep-Pen-Mug-Desk-301/trial_1")
    write_game(f"{split}/pick_and_place_simple-AppleSliced-None-Fridge-1/trial_1")
    write_game(f"{split}/pick_and_place_simple-Egg-None-Fridge-1/trial_1", solvable=False)
    write_game(f"{split}/pick_and_place_simple-Egg-None-Fridge-1/trial_2", solvable=None)
    write_game(f"{split}/dance_on_table-Egg-None-Fridge-1/trial_1")
    (tmp_path / split / "pick_and_place_simple-Pen-None-Desk-301" / "trial_1").mkdir(parents=True)
    return tmp_path


def test_official_tasks_are_those_of_the_six_families_that_are_solvable_in_fixed_order(release):
    tasks = official_tasks("valid_seen", release)
    assert [task.id for task in tasks] == [
        "valid_seen/look_at_obj_in_light-Pen-None-DeskLamp-301/trial_1",
        "valid_seen/look_at_obj_in_light-Pen-None-DeskLamp-301/trial_2",
        "valid_seen/pick_and_place_simple-Apple-None-Fridge-1/trial_1",
    ]
    assert tasks[0].task_type == "look_at_obj_in_light"
    assert {task.split for task in tasks} == {"val"}
    assert tasks[0].description == "put a apple in fridge"
    assert load_game(tasks[0].extras["game_file"]).start == "loc 2"


def test_the_release_folder_itself_may_be_named_or_the_variable_set(release, monkeypatch):
    named = official_tasks("valid_seen", release / "json_2.1.1")
    monkeypatch.setenv("ALFWORLD_DATA", str(release))
    assert official_tasks("valid_seen") == named


def test_the_annotation_decides_the_family_where_there_is_one(release):
    folder = release / "json_2.1.1/valid_seen/pick_and_place_simple-Apple-None-Fridge-1/trial_1"
    (folder / "traj_data.json").write_text('{"task_type": "pick_two_obj_and_place"}', "utf-8")
    assert official_tasks("valid_seen", release)[-1].task_type == "pick_two_obj_and_place"


def test_building_tasks_does_not_read_the_problems(write_game, tmp_path):
    write_game("json_2.1.1/train/pick_and_place_simple-A-None-B-1/trial_1", pddl_problem="((broken")
    assert len(official_tasks("train", tmp_path)) == 1


@pytest.mark.parametrize("root", ["nowhere", "."])
def test_a_folder_without_games_is_refused_with_the_way_to_get_them(tmp_path, root):
    with pytest.raises(DataError, match="alfworld-download"):
        official_tasks("train", tmp_path / root)


def test_no_folder_at_all_is_refused_with_the_way_to_get_it(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(DataError, match=r"alfworld-download.*ALFWORLD_DATA"):
        official_tasks("train")


def test_an_unknown_split_is_refused_with_the_nearest_one(tmp_path):
    with pytest.raises(DataError, match="Did you mean 'valid_unseen'"):
        official_tasks("valid_unsen", tmp_path)

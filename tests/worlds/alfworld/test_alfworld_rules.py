"""What can be done in the household, odd cases included."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.worlds.alfworld import Receptacle, World, task_type_goal

NOTHING = "Nothing happens."
ROOM = {
    "apple 2": "countertop 1",
    "apple 1": "cabinet 3",
    "desklamp 2": "desk 1",
    "desklamp 1": "microwave 1",
    "knife 1": "countertop 1",
    "mug 1": "cabinet 3",
    "pen 1": "desk 1",
}


@pytest.fixture
def world(make_problem) -> World:
    return World(make_problem(ROOM))


def act(world: World, *commands: str) -> str:
    """Carry out commands that must all be admissible; return the last observation."""
    for command in commands:
        assert command in world.admissible()
        observation = world.act(command)
        assert observation != NOTHING
    return observation


def test_the_game_opens_with_the_room_and_the_task(world):
    assert world.intro() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 3, "
        "a cabinet 2, a cabinet 1, a countertop 1, a bathtubbasin 1, a desk 1, a fridge 1, "
        "a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a apple in fridge."
    )


def test_a_look_at_the_start_sees_nothing_although_the_intro_lists_the_room(world):
    assert act(world, "look") == (
        "You are in the middle of a room. Looking quickly around you, you see nothing."
    )


def test_a_game_that_starts_at_receptacles_never_lists_the_room(make_problem):
    world = World(make_problem(ROOM, start="by the desk"))
    assert "You are facing the desk 1. Next to it, you see nothing." in world.intro()
    assert "middle of a room" not in world.intro()


def test_at_a_start_without_receptacles_one_can_only_go_and_look(world):
    going = [f"go to {place.name}" for place in world.problem.receptacles]
    assert world.admissible() == sorted([*going, "help", "inventory", "look"])


def test_commands_are_sorted_as_plain_text(make_problem):
    names = ("cabinet 10", "cabinet 2", "cabinet 1")
    places = tuple(Receptacle(name, name, "cabinet", name) for name in names)
    world = World(make_problem({}, receptacles=places))
    assert world.admissible()[:3] == ["go to cabinet 1", "go to cabinet 10", "go to cabinet 2"]


def test_heating_needs_the_object_in_hand_but_no_open_door(world):
    act(world, "go to countertop 1", "take apple 2 from countertop 1", "go to microwave 1")
    assert act(world, "heat apple 2 with microwave 1") == (
        "You heat the apple 2 using the microwave 1."
    )
    assert world.states["apple 2"] == {"hot"}
    assert "microwave 1" not in world.opened


def test_an_appliance_does_nothing_for_an_object_that_lies_in_it(make_problem):
    world = World(make_problem({"apple 1": "microwave 1"}))
    act(world, "go to microwave 1", "open microwave 1")
    assert world.act("heat apple 1 with microwave 1") == NOTHING


def test_hot_and_cool_exclude_each_other_and_clean_stays(make_problem):
    world = World(make_problem({"apple 1": "sinkbasin 1"}))
    act(world, "go to sinkbasin 1", "take apple 1 from sinkbasin 1")
    act(world, "clean apple 1 with sinkbasin 1", "go to fridge 1", "cool apple 1 with fridge 1")
    assert act(world, "examine apple 1") == "This is a cool and clean apple 1."
    act(world, "go to microwave 1", "heat apple 1 with microwave 1")
    assert act(world, "examine apple 1") == "This is a hot and clean apple 1."


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("microwave 1", "heat apple 1 with microwave 1"),
        ("fridge 1", "cool apple 1 with fridge 1"),
        ("sinkbasin 1", "clean apple 1 with sinkbasin 1"),
    ],
)
def test_heating_cooling_and_cleaning_can_be_repeated(make_problem, place, command):
    world = World(make_problem({"apple 1": ""}, held="apple 1"))
    act(world, f"go to {place}", command, command)


def test_a_bathtub_does_not_clean(make_problem):
    world = World(make_problem({"apple 1": ""}, held="apple 1"))
    act(world, "go to bathtubbasin 1")
    assert not [command for command in world.admissible() if command.startswith("clean")]


def test_a_lamp_in_a_closed_microwave_can_be_switched_on_and_never_off(world):
    act(world, "go to microwave 1")
    assert act(world, "use desklamp 1") == "You turn on the desklamp 1."
    assert act(world, "use desklamp 1") == "You turn on the desklamp 1."
    assert world.states["desklamp 1"] == {"toggled"}


def test_a_lamp_can_be_neither_taken_nor_examined(world):
    act(world, "go to desk 1")
    assert world.act("take desklamp 2 from desk 1") == NOTHING
    assert world.act("examine desklamp 2") == NOTHING


def test_a_held_lamp_tells_whether_it_is_on(make_problem):
    dark = World(make_problem({"desklamp 1": ""}, held="desklamp 1"))
    assert act(dark, "examine desklamp 1") == "This desklamp 1 is off."
    lit = {"desklamp 1": {"toggled"}}
    bright = World(make_problem({"desklamp 1": ""}, held="desklamp 1", states=lit))
    assert act(bright, "examine desklamp 1") == "This desklamp 1 is on."


def test_slicing_reaches_into_closed_receptacles_at_the_location(world):
    act(world, "go to countertop 1", "take knife 1 from countertop 1")
    assert "cabinet 3" not in world.opened
    assert act(world, "slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."


def test_a_sliced_object_keeps_its_name_and_can_be_sliced_again(world):
    act(world, "go to countertop 1", "take knife 1 from countertop 1", "slice apple 2 with knife 1")
    act(world, "slice apple 2 with knife 1", "move knife 1 to countertop 1")
    act(world, "take apple 2 from countertop 1")
    assert act(world, "examine apple 2") == "This is a sliced apple 2."


def test_a_butter_knife_slices_too_and_an_object_in_hand_is_out_of_its_reach(make_problem):
    where = {"apple 1": "countertop 1", "butterknife 1": "countertop 1"}
    world = World(make_problem(where))
    act(world, "go to countertop 1", "take apple 1 from countertop 1")
    assert world.act("slice apple 1 with butterknife 1") == NOTHING
    act(world, "move apple 1 to countertop 1", "take butterknife 1 from countertop 1")
    act(world, "slice apple 1 with butterknife 1")


def test_only_held_objects_can_be_examined(world):
    act(world, "go to countertop 1")
    assert world.act("examine apple 2") == NOTHING
    act(world, "take apple 2 from countertop 1")
    assert act(world, "examine apple 2") == "There's nothing special about apple 2."


def test_a_movable_receptacle_reports_what_is_in_it_and_never_its_condition(make_problem):
    where = {"mug 1": "", "pen 1": "", "pen 2": ""}
    world = World(make_problem(where, held="mug 1", inner={"mug 1": ("pen 1", "pen 2")}))
    act(world, "go to microwave 1", "heat mug 1 with microwave 1")
    assert act(world, "examine mug 1") == (
        "This is a normal mug 1. In it, you see a pen 1, and a pen 2."
    )


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({"clean", "hot", "sliced"}, "This is a hot and clean sliced apple 1."),
        ({"clean", "cool", "sliced"}, "This is a cool and clean sliced apple 1."),
        ({"clean", "sliced"}, "This is a clean sliced apple 1."),
        ({"hot", "sliced"}, "This is a hot sliced apple 1."),
        ({"cool", "sliced"}, "This is a cool sliced apple 1."),
        ({"clean", "hot"}, "This is a hot and clean apple 1."),
        ({"clean", "cool"}, "This is a cool and clean apple 1."),
        ({"hot"}, "This is a hot apple 1."),
        ({"clean"}, "This is a clean apple 1."),
        ({"cool"}, "This is a cold apple 1."),
        ({"sliced"}, "This is a sliced apple 1."),
        (set(), "There's nothing special about apple 1."),
    ],
)
def test_an_examined_object_reports_its_condition(make_problem, states, text):
    world = World(make_problem({"apple 1": ""}, held="apple 1", states={"apple 1": states}))
    assert act(world, "examine apple 1") == text


def test_one_cannot_go_to_where_one_is_nor_to_a_neighbor_there(world):
    act(world, "go to countertop 1")
    assert world.act("go to countertop 1") == NOTHING
    assert world.act("go to cabinet 3") == NOTHING


def test_every_receptacle_at_a_location_is_in_reach_not_only_the_one_arrived_at(world):
    act(world, "go to countertop 1", "open cabinet 2", "open cabinet 3", "examine cabinet 2")
    act(world, "take mug 1 from cabinet 3", "move mug 1 to cabinet 2", "close cabinet 3")
    assert world.places["mug 1"] == {"cabinet 2"}


def test_a_cabinet_without_a_door_is_an_open_surface(world):
    assert act(world, "go to cabinet 1") == (
        "You arrive at cabinet 1. On the cabinet 1, you see nothing."
    )
    assert world.act("open cabinet 1") == NOTHING


def test_a_closed_door_hides_its_contents_and_keeps_hands_out(world):
    assert act(world, "go to cabinet 3") == "You arrive at cabinet 3. The cabinet 3 is closed."
    assert world.act("take mug 1 from cabinet 3") == NOTHING
    assert act(world, "open cabinet 3") == (
        "You open the cabinet 3. The cabinet 3 is open. In it, you see a apple 1, and a mug 1."
    )
    act(world, "take mug 1 from cabinet 3")
    assert act(world, "close cabinet 3") == "You close the cabinet 3."
    assert world.act("move mug 1 to cabinet 3") == NOTHING


def test_hands_hold_one_object(world):
    act(world, "go to countertop 1", "take apple 2 from countertop 1")
    assert world.act("take knife 1 from countertop 1") == NOTHING
    assert act(world, "inventory") == "You are carrying: a apple 2."
    act(world, "move apple 2 to countertop 1")
    assert act(world, "inventory") == "You are not carrying anything."


def test_a_receptacle_takes_only_the_classes_it_can_contain(make_problem):
    world = World(make_problem({"apple 1": ""}, held="apple 1", can_contain={"desk": {"pen"}}))
    act(world, "go to desk 1")
    assert world.act("move apple 1 to desk 1") == NOTHING


def test_an_object_without_a_class_cannot_be_put_down(make_problem):
    problem = make_problem({"apple 1": ""}, held="apple 1")
    things = tuple(replace(thing, otype="") for thing in problem.things)
    world = World(replace(problem, things=things))
    act(world, "go to desk 1")
    assert not [command for command in world.admissible() if command.startswith("move")]


def test_a_look_lists_an_object_once_per_receptacle_nearby_that_it_was_taken_out_of(world):
    act(world, "go to countertop 1", "open cabinet 3", "open cabinet 2")
    facing = "You are facing the cabinet 3, cabinet 2, and countertop 1. Next to it, you see "
    assert act(world, "look") == f"{facing}nothing."
    act(world, "take mug 1 from cabinet 3")
    assert act(world, "look") == f"{facing}nothing."
    act(world, "move mug 1 to cabinet 2")
    assert act(world, "look") == f"{facing}a mug 1."
    act(world, "take mug 1 from cabinet 2", "move mug 1 to countertop 1")
    assert act(world, "look") == f"{facing}a mug 1, and a mug 1."
    act(world, "take mug 1 from countertop 1", "move mug 1 to cabinet 3")
    assert act(world, "look") == f"{facing}a mug 1, and a mug 1."


def test_a_moved_object_is_not_listed_at_another_location(world):
    act(world, "go to countertop 1", "take apple 2 from countertop 1", "go to desk 1")
    act(world, "move apple 2 to desk 1")
    assert act(world, "look") == "You are facing the desk 1. Next to it, you see nothing."


def test_contents_are_listed_in_the_order_of_the_identifiers_whatever_came_last(world):
    act(world, "go to countertop 1", "take apple 2 from countertop 1")
    assert act(world, "move apple 2 to countertop 1", "examine countertop 1") == (
        "On the countertop 1, you see a apple 2, and a knife 1."
    )


def test_a_win_is_lost_again_when_the_goal_is_undone(make_problem):
    world = World(make_problem({"apple 1": ""}, held="apple 1"))
    act(world, "go to fridge 1", "open fridge 1")
    assert not world.solved
    act(world, "move apple 1 to fridge 1")
    assert world.solved
    act(world, "take apple 1 from fridge 1")
    assert not world.solved


def test_the_lamp_may_be_switched_on_before_the_object_is_in_hand(make_problem):
    goal = task_type_goal("look_at_obj_in_light", "pen", "", "desklamp")
    world = World(make_problem(ROOM, goal=goal))
    act(world, "go to desk 1", "use desklamp 2")
    assert not world.solved
    act(world, "take pen 1 from desk 1")
    assert world.solved
    act(world, "go to fridge 1")
    assert not world.solved


def test_pick_two_wants_both_objects_in_the_same_receptacle(make_problem):
    goal = task_type_goal("pick_two_obj_and_place", "apple", "cabinet")
    where = {"apple 2": "cabinet 2", "apple 1": "countertop 1", "pen 1": "cabinet 1"}
    world = World(make_problem(where, goal=goal))
    act(world, "go to countertop 1", "take apple 1 from countertop 1", "open cabinet 3")
    act(world, "move apple 1 to cabinet 3")
    assert not world.solved
    act(world, "take apple 1 from cabinet 3", "open cabinet 2", "move apple 1 to cabinet 2")
    assert world.solved


@pytest.mark.parametrize(
    "command", ["Look", "", "look around", "go to  desk 1", "GO TO desk 1", "take", "move", "help!"]
)
def test_a_command_counts_only_if_it_is_written_exactly_like_an_admissible_one(world, command):
    assert world.act(command) == NOTHING


def test_white_space_around_a_command_is_ignored(world):
    assert world.act("  go to desk 1\n").startswith("You arrive at desk 1. ")


def test_help_ends_with_a_line_break(world):
    assert world.act("help").startswith("Available commands:\n  look:  ")
    assert world.act("help").endswith("using a sharp object\n")


def test_the_older_dialect_puts_things_in_or_on_and_names_locations(make_problem):
    world = World(make_problem({"apple 1": ""}, held="apple 1", dialect="2.1.1"))
    assert "help" not in world.admissible()
    assert (
        act(world, "go to desk 1") == "You arrive at by the desk. On the desk 1, you see nothing."
    )
    assert world.act("move apple 1 to desk 1") == NOTHING
    assert act(world, "put apple 1 in/on desk 1") == "You put the apple 1 in/on the desk 1."


def test_a_receptacle_that_stands_nowhere_is_neither_seen_nor_reached(make_problem):
    places = (Receptacle("desk 1", "a", "desk", ""), Receptacle("desk 2", "b", "desk", "there"))
    world = World(make_problem({}, receptacles=places))
    assert "you see a desk 2." in world.intro()
    assert world.admissible() == ["go to desk 2", "help", "inventory", "look"]


def test_a_copy_goes_its_own_way(world):
    act(world, "go to countertop 1")
    before = world.admissible()
    twin = world.copy()
    act(twin, "open cabinet 3", "take mug 1 from cabinet 3", "go to desk 1", "use desklamp 2")
    assert world.admissible() == before
    assert (world.location, world.held, set(world.opened)) == ("by the counter", "", set())
    assert "mug 1" in world.contents["cabinet 3"]
    assert not world.states["desklamp 2"]


def test_the_callers_list_of_commands_is_its_own(world):
    world.admissible().clear()
    assert world.admissible()


def test_two_things_with_one_name_are_refused(make_problem):
    problem = make_problem(ROOM)
    twice = make_problem({}, things=problem.things[:1] * 2)
    with pytest.raises(DataError, match="two entities called 'apple 2'"):
        World(twice)


def test_an_object_in_an_unknown_place_is_refused(make_problem):
    problem = make_problem(ROOM)
    with pytest.raises(DataError, match="'cabinet 3', which it does not define"):
        World(make_problem({}, things=problem.things, receptacles=problem.receptacles[1:]))


# -- laws -----------------------------------------------------------------------------------------


@given(choices=st.lists(st.integers(0, 10**6), max_size=30))
def test_admissible_commands_are_sorted_unique_and_all_do_something(make_problem, choices):
    world = World(make_problem(ROOM))
    for choice in choices:
        admissible = world.admissible()
        assert admissible == sorted(set(admissible))
        assert NOTHING not in {world.copy().act(command) for command in admissible}
        world.act(admissible[choice % len(admissible)])


@given(choices=st.lists(st.integers(0, 10**6), max_size=10), text=st.text())
def test_any_other_text_changes_nothing(make_problem, choices, text):
    world = World(make_problem(ROOM))
    for choice in choices:
        admissible = world.admissible()
        world.act(admissible[choice % len(admissible)])
    if text.strip() in world.admissible():
        return
    before = snapshot(world)
    assert world.act(text) == NOTHING
    assert snapshot(world) == before


def snapshot(world: World) -> tuple:
    carried = (world.location, world.held, set(world.opened), world.solved, world.admissible())
    return (*carried, world.contents.copy(), world.places.copy(), world.states.copy())

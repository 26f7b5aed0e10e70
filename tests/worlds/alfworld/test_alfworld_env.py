"""The episode environment: its prompt, its steps and its settings."""

import pytest

from skillwright.core import DataError, EnvError
from skillwright.envs import make
from skillwright.worlds.alfworld import AlfworldEnv, generate

START = (
    "-= Welcome to TextWorld, ALFRED! =-\n\n"
    "You are facing the shelf 1. Next to it, you see nothing.\n\n"
    "Your task is to: put a apple in fridge."
)
ADMISSIBLE = [
    "examine shelf 1",
    "go to fridge 1",
    "help",
    "inventory",
    "look",
    "take apple 1 from shelf 1",
]


@pytest.fixture
def open_game(write_game):
    def opened(env_config=None, **extras) -> AlfworldEnv:
        env = AlfworldEnv(env_config, {"game_file": str(write_game()), **extras})
        env.init([])
        return env

    return opened


def test_an_episode_opens_with_instructions_and_the_scene(write_game):
    env = AlfworldEnv(extras={"game_file": str(write_game()), "max_turns": 7})
    messages, metadata = env.init([{"role": "system", "content": "Be brief."}])
    assert [message["role"] for message in messages] == ["system", "system", "user"]
    assert messages[0]["content"] == "Be brief."
    assert "<action>" in messages[1]["content"]
    assert "You have 7 turns." in messages[1]["content"]
    assert messages[2]["content"] == f"{START}\n\nAdmissible commands: {', '.join(ADMISSIBLE)}"
    assert metadata == {
        "observation": START,
        "admissible_commands": ADMISSIBLE,
        "won": False,
        "truncated": False,
    }


def test_a_step_answers_with_the_observation_and_what_can_be_done_next(open_game):
    output = open_game().step("take apple 1 from shelf 1")
    assert (output["reward"], output["done"]) == (0.0, False)
    seen = "You pick up the apple 1 from the shelf 1."
    commands = ["examine apple 1", "examine shelf 1", "go to fridge 1", "help", "inventory", "look"]
    assert output["observations"] == [
        {"role": "user", "content": f"{seen}\n\nAdmissible commands: {', '.join(commands)}"}
    ]
    assert output["metadata"] == {
        "observation": seen,
        "admissible_commands": commands,
        "won": False,
        "truncated": False,
    }


def test_the_winning_step_is_rewarded_and_ends_the_episode(open_game):
    env = open_game()
    env.step("take apple 1 from shelf 1")
    env.step("go to fridge 1")
    env.step("open fridge 1")
    output = env.step("move apple 1 to fridge 1")
    assert (output["reward"], output["done"]) == (1.0, True)
    assert output["metadata"]["won"]
    assert not output["metadata"]["truncated"]
    assert output["observations"][0]["content"] == "You move the apple 1 to the fridge 1."
    assert env.get_metrics() == {"won": 1.0, "steps": 4.0, "invalid_actions": 0.0}


def test_the_turn_limit_truncates(open_game):
    env = open_game(max_turns=2)
    assert not env.step("look")["done"]
    output = env.step("dance")
    assert output["done"]
    assert output["metadata"]["truncated"]
    assert not output["metadata"]["won"]
    assert output["observations"][0]["content"] == "Nothing happens."
    assert env.get_metrics() == {"won": 0.0, "steps": 2.0, "invalid_actions": 1.0}


def test_winning_on_the_last_turn_is_no_truncation(open_game):
    env = open_game(max_turns=4)
    for command in ("take apple 1 from shelf 1", "go to fridge 1", "open fridge 1"):
        env.step(command)
    output = env.step("move apple 1 to fridge 1")
    assert output["metadata"]["won"]
    assert not output["metadata"]["truncated"]


def test_fifty_turns_are_the_default(open_game):
    env = open_game()
    assert [env.step("look")["done"] for _ in range(50)] == [False] * 49 + [True]


@pytest.mark.parametrize(
    "action",
    [
        "go to fridge 1",
        "  go to fridge 1\n",
        "<action>go to fridge 1</action>",
        "I think: fridge.\n<action> go to fridge 1 </action> Good.",
        "<action>look</action> no, <action>go to fridge 1</action>",
        "<action>go to fridge 1</action> or <action>look",
        "<action>wait <action>go to fridge 1</action></action>",
    ],
)
def test_a_command_may_be_bare_or_tagged_and_the_last_complete_tag_counts(open_game, action):
    output = open_game().step(action)
    assert output["metadata"]["observation"] == "You arrive at fridge 1. The fridge 1 is closed."
    assert output["postprocessed_action"] == "go to fridge 1"


@pytest.mark.parametrize(
    "action", ["", "<action></action>", "go to fridge 1 <action>", "<b>look</b>"]
)
def test_anything_else_costs_a_turn_and_does_nothing(open_game, action):
    env = open_game()
    output = env.step(action)
    assert output["metadata"]["observation"] == "Nothing happens."
    assert env.get_metrics()["invalid_actions"] == 1.0


def test_the_list_of_commands_can_be_left_out_of_the_text(write_game):
    env = AlfworldEnv({"show_admissible": False}, {"game_file": str(write_game())})
    messages, metadata = env.init([])
    assert messages[1]["content"] == START
    assert "admissible" not in messages[0]["content"]
    assert "move mug 1 to shelf 1" in messages[0]["content"]
    assert metadata["admissible_commands"] == ADMISSIBLE
    assert env.step("inventory")["observations"][0]["content"] == "You are not carrying anything."


def test_two_episodes_of_a_game_do_not_disturb_each_other(write_game):
    extras = {"game_file": str(write_game())}
    one, other = AlfworldEnv(extras=extras), AlfworldEnv(extras=extras)
    one.init([])
    one.step("take apple 1 from shelf 1")
    _, metadata = other.init([])
    assert metadata["admissible_commands"] == ADMISSIBLE


def test_an_environment_can_be_opened_again(open_game):
    env = open_game()
    env.step("dance")
    _, metadata = env.init([])
    assert metadata["admissible_commands"] == ADMISSIBLE
    assert env.get_metrics() == {"won": 0.0, "steps": 0.0, "invalid_actions": 0.0}


def test_a_generated_game_is_won_by_its_walkthrough():
    extras = {"generated": {"split": "train", "index": 3}, "seed": 99}
    env = AlfworldEnv(extras=extras)
    _, metadata = env.init([])
    outputs = [env.step(command) for command in generate.generate_problem("train", 3).walkthrough]
    assert "Your task is to: " in metadata["observation"]
    assert [output["done"] for output in outputs] == [False] * (len(outputs) - 1) + [True]
    assert outputs[-1]["reward"] == 1.0


def test_the_registry_knows_it_by_name(write_game):
    assert isinstance(make("alfworld", extras={"game_file": str(write_game())}), AlfworldEnv)


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        ({}, "give either 'game_file'"),
        ({"game_file": "a", "generated": {}}, "give either 'game_file'"),
        ({"gamefile": "a"}, "Did you mean 'game_file'"),
        ({"game_file": "nowhere.tw-pddl"}, "'nowhere.tw-pddl' cannot be read: No such file"),
        ({"game_file": 3}, "'game_file' is 3; name a path"),
        ({"generated": "test"}, "'generated' is 'test'; use a mapping"),
        ({"generated": {"split": "test", "indx": 1}}, "Did you mean 'index'"),
        ({"generated": {"split": "test"}}, "missing a required argument: 'index'"),
        ({"generated": {"split": "test", "index": "1"}}, "'index' is '1'; it must be int"),
        ({"generated": {"split": "test", "index": True}}, "'index' is True; it must be int"),
        ({"generated": {"split": ["test"], "index": 1}}, r"'split' is \['test'\]; it must be str"),
        ({"generated": {"split": "test", "index": 1, "household": "x"}}, r"must be int \| None"),
        ({"generated": {"split": "test", "index": 1}, "max_turns": 0}, "max_turns is 0"),
        ({"generated": {"split": "test", "index": 1}, "max_turns": "x"}, "max_turns is 'x'; give"),
        ({"generated": {"split": "test", "index": 1}, "max_turns": None}, "max_turns is None"),
    ],
)
def test_wrong_extras_are_refused_before_the_episode(extras, message):
    with pytest.raises(DataError, match=message):
        AlfworldEnv(extras=extras)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"show_admisible": False}, "Did you mean 'show_admissible'"),
        ({"show_admissible": "no"}, "use true or false"),
        (["show_admissible"], "must be a mapping, not list"),
    ],
)
def test_a_wrong_config_is_refused(config, message):
    with pytest.raises(DataError, match=message):
        AlfworldEnv(config, {"generated": {"split": "test", "index": 0}})


def test_a_step_before_the_opening_is_an_environment_fault(write_game):
    with pytest.raises(EnvError, match="before init"):
        AlfworldEnv(extras={"game_file": str(write_game())}).step("look")

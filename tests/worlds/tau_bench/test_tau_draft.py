"""The six behaviors that the public draft of this environment promises (SkyRL change 1853).

Every episode has the default settings, which name a model server, and a user that the test
assigned in its place; so nothing here may touch a network.
"""

import json

import pytest

from skillwright.worlds.tau_bench import DOMAINS, ScriptedUser, TauBenchEnv
from skillwright.worlds.tau_bench.tau_core.store import BUILT_IN

OPENING = "Hi, I need help with my order."
PLACEHOLDER = [{"role": "user", "content": "placeholder"}]


@pytest.fixture(params=["built-in", "reference"], autouse=True)
def data(request, monkeypatch):
    if request.param == "built-in":
        monkeypatch.setenv(DOMAINS["retail"].data_variable, str(BUILT_IN))
        return
    folder = request.getfixturevalue("reference_data") / "tau_retail"
    monkeypatch.setenv(DOMAINS["retail"].data_variable, str(folder))


@pytest.fixture(params=[None, {}], ids=["None", "{}"])
def make_env(request):
    def make(*replies, **extras):
        env = TauBenchEnv(request.param, extras={"task_index": 0, "task_split": "test", **extras})
        env.tau_env.user = ScriptedUser([OPENING, *replies])
        assert env.user_sim is env.tau_env.user
        return env

    return make


def written(action):
    call = {"name": action.name, "arguments": action.kwargs}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def test_init_builds_system_and_first_user_message(make_env):
    messages, metadata = make_env().init(PLACEHOLDER)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"] == OPENING
    assert metadata["task_index"] == 0
    system = messages[0]["content"]
    for name in ("<tool_call>", "get_order_details", "transfer_to_human_agents"):
        assert name in system


def test_gold_replay_gives_reward_one(make_env):
    env = make_env(max_turns=50)
    env.init(PLACEHOLDER)
    for action in env.tau_env.task.actions:
        output = env.step(written(action))
        assert not output["done"]
        assert output["metadata"]["source"] == action.name
    output = env.step(f"All of it is done. {' '.join(env.tau_env.task.outputs)}")
    assert (output["done"], output["reward"]) == (True, 1.0)
    metrics = env.get_metrics()
    assert (metrics["success"], metrics["reward"], metrics["num_tool_errors"]) == (1, 1, 0)


def test_immediate_goodbye_gives_zero(make_env):
    env = make_env()
    env.init(PLACEHOLDER)
    output = env.step("Goodbye!")
    assert (output["done"], output["reward"]) == (True, 0.0)
    assert env.get_metrics()["success"] == 0


def test_malformed_call_is_an_error_observation(make_env):
    env = make_env()
    env.init(PLACEHOLDER)
    output = env.step("<tool_call>{not json}</tool_call>")
    (observation,) = output["observations"]
    assert "Error: could not parse tool call" in observation["content"]
    assert (output["done"], output["reward"]) == (False, 0.0)
    assert "error" in output["metadata"]
    metrics = env.get_metrics()
    assert (metrics["num_tool_errors"], metrics["num_turns"]) == (1, 1)


def test_read_tool_returns_one_user_observation(make_env):
    env = make_env()
    env.init(PLACEHOLDER)
    output = env.step('<tool_call>{"name": "list_all_product_types", "arguments": {}}</tool_call>')
    (observation,) = output["observations"]
    assert observation["role"] == "user"
    assert isinstance(json.loads(observation["content"]), dict)
    assert (output["done"], output["metadata"]["source"]) == (False, "list_all_product_types")


def test_max_turns_ends_the_episode(make_env):
    env = make_env("Still here.", max_turns=1)
    env.init(PLACEHOLDER)
    output = env.step("How can I help?")
    assert (output["done"], output["reward"]) == (True, 0.0)
    assert env.get_metrics()["num_turns"] == 1

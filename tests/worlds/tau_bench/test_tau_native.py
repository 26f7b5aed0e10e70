"""tau-bench with native calls: the prompt, a turn, its results, and settings that do not fit."""

import json

import pytest

from skillwright.core import DataError, EnvError, ToolCall
from skillwright.worlds.tau_bench import STOP, TauBenchEnv, open_store
from skillwright.worlds.tau_bench.parsing import MAX_CALL_CHARS, Call, Misfit, Speech, parse_native
from skillwright.worlds.tau_bench.tau_core import call_tool
from tau_store import CANCEL, OPENING, database, make_env, write_store

THINK = ToolCall("a", "think", '{"thought": "hm"}')


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def env(shop):
    env = make_env(shop, tools="native")
    env.init([])
    return env


def step(env, name, call_id="a", /, **arguments):
    return env.step_native("", [ToolCall(call_id, name, json.dumps(arguments))])


# The prompt


def test_the_system_prompt_leaves_the_tools_to_the_endpoint(shop):
    env = make_env(shop, tools="native")
    system, opening = env.init([])[0]
    assert "# Policy" in system["content"]
    assert "Be kind." in system["content"]
    assert "<tool_call>" not in system["content"]
    assert "cancel_pending_order" not in system["content"]
    assert opening == {"role": "user", "content": OPENING}
    names = [tool["function"]["name"] for tool in env.native_tools()]
    assert names == [one["function"]["name"] for one in open_store(shop).tool_schemas]
    assert make_env(shop).native_tools() == ()


def test_the_preset_is_the_policy_and_nothing_else(shop):
    env = make_env(shop, tools="native", prompt="tau-bench")
    assert env.init([])[0][0]["content"] == open_store(shop).wiki


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prompt": "tau-bench"}, "says nothing of tags.*Set tools: native"),
        ({"tools": "native", "wrap_tool_results": True}, "Leave one of the two out"),
        ({"user_prompt": "tau-bench", "user_strategy": "react"}, "Set user_strategy: llm"),
        ({"tools": "natively"}, "tools is 'natively'.*native"),
        ({"prompt": "taubench"}, "prompt is 'taubench'.*tau-bench"),
    ],
)
def test_settings_that_do_not_fit_are_refused(shop, settings, said):
    with pytest.raises(DataError, match=said):
        make_env(shop, **settings)


def test_a_task_that_brings_a_strategy_is_held_to_the_same(shop):
    with pytest.raises(DataError, match="Set user_strategy: llm"):
        TauBenchEnv({"data_dir": str(shop), "user_prompt": "tau-bench"}, {"user_strategy": "react"})


# A turn


def test_the_result_of_a_call_is_a_message_under_its_id(env):
    output = step(env, "get_order_details", "call_7", order_id="#W1")
    (message,) = output["observations"]
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_7")
    assert json.loads(message["content"])["order_id"] == "#W1"
    assert output["metadata"]["tool_call"]["name"] == "get_order_details"


def test_a_text_without_a_call_is_said_to_the_user(shop):
    env = make_env(shop, replies=[OPENING, "Fine."], tools="native")
    env.init([])
    output = env.step_native("<think>Hm.</think>How are you?", [])
    assert output["observations"] == [{"role": "user", "content": "Fine."}]
    assert env.tau_env.said == ["How are you?"]


def test_the_gold_calls_and_a_closing_message_are_rewarded(env):
    for action in env.tau_env.task.actions:
        assert not step(env, action.name, **action.kwargs)["done"]
    output = env.step_native("It is done.", [])
    assert (output["reward"], output["done"], output["observations"]) == (1.0, True, [])
    assert STOP in output["metadata"]["observation"]


def test_only_the_first_call_is_run_and_nothing_is_said_about_the_others(env):
    cancel = ToolCall("b", CANCEL[0], json.dumps(CANCEL[1]))
    (message,) = env.step_native("", [THINK, cancel])["observations"]
    assert message == {"role": "tool", "tool_call_id": "a", "content": ""}
    assert [one.name for one in env.tau_env.actions] == ["think"]
    assert env.get_metrics()["extra_tool_calls"] == 1


def test_a_transfer_ends_the_episode_even_with_wrong_arguments(env):
    output = step(env, "transfer_to_human_agents", wrong=1)
    assert output["done"]
    assert output["observations"] == []


def test_an_empty_turn_is_told_so_as_a_message_of_the_user(env):
    (message,) = env.step_native(" ", [])["observations"]
    assert message["role"] == "user"
    assert message["content"].startswith("Error: the message is empty")


def test_running_out_of_turns_ends_it(shop):
    env = make_env(shop, extras={"max_turns": 1}, tools="native")
    env.init([])
    output = env.step_native("", [THINK])
    assert (output["done"], output["reward"], output["metadata"]["truncated"]) == (True, 0.0, True)


async def test_awaiting_is_the_same(shop):
    env = make_env(shop, tools="native")
    await env.ainit([])
    output = await env.astep_native("", [THINK])
    assert output["observations"][0]["role"] == "tool"
    assert (await env.astep_native("Bye.", []))["done"]


async def test_who_knows_texts_only_is_told_what_to_set(env):
    with pytest.raises(EnvError, match="Set tools: tags"):
        env.step("Hello.")
    with pytest.raises(EnvError, match="Set tools: tags"):
        await env.astep("Hello.")


# What a turn means


@pytest.mark.parametrize(
    ("said", "calls", "mode", "meant"),
    [
        ("Hi.", [], "default", Speech("Hi.")),
        ('<tool_call>{"name": "x"}</tool_call>', [], "default", Call("x")),
        ("x</think>Hi.", [THINK], "default", Call("think", {"thought": "hm"}, mixed=True)),
        ("<think>x", [THINK], "strict", Call("think", {"thought": "hm"})),
        ("", [THINK, THINK], "default", Call("think", {"thought": "hm"}, extra_calls=1)),
        ("", [ToolCall("a", "think", "")], "default", Call("think", {})),
        ("", [ToolCall("a", "think", "null")], "default", Call("think", {})),
        ("", [ToolCall("a", "think", '"{}"')], "default", Call("think", {})),
    ],
)
def test_what_a_turn_means(said, calls, mode, meant):
    assert parse_native(said, calls, mode) == meant


@pytest.mark.parametrize(
    ("said", "calls", "mode", "why"),
    [
        ("<tool_call>{}</tool_call>", [], "strict", "called natively"),
        ("Hi.", [THINK], "strict", "no text beside a call"),
        ("", [THINK, THINK], "strict", "one call per turn"),
        ("", [ToolCall("a", "think", "[]")], "default", "not a JSON object"),
        ("", [ToolCall("a", "think", '"[1]"')], "default", "not a JSON object"),
        ("<tool_call>{}</tool_call>", [], "default", "it has no name"),
        ("", [ToolCall("a", "think", "{")], "default", "no JSON"),
        ("", [ToolCall("a", "think", '{"a": Infinity}')], "default", "Infinity"),
        ("", [ToolCall("a", "x" * MAX_CALL_CHARS, "{}")], "default", "longer than"),
    ],
)
def test_a_turn_that_means_nothing_says_why(said, calls, mode, why):
    misfit = parse_native(said, calls, mode)
    assert isinstance(misfit, Misfit)
    assert misfit.error.startswith("Error: could not parse tool call (")
    assert why in misfit.error


def test_a_call_without_a_name_is_answered_as_tau_bench_answers_it(tmp_path):
    assert parse_native("", [ToolCall("a", "", "{}")], "default") == Call("")
    assert call_tool(database(write_store(tmp_path)), "", {}).observation == "Unknown action "

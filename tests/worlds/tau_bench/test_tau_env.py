"""An episode: turns, ends, rewards, metrics and settings."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from skillwright.core import DataError, EnvError
from skillwright.envs import make
from skillwright.worlds.tau_bench import (
    STOP,
    ScriptedUser,
    TauBenchEnv,
    TauBenchEnvConfig,
    comparability,
    read_config,
    user_strategies,
)
from tau_store import (
    CANCEL,
    OPENING,
    RETURN,
    make_env,
    open_env,
    tool_call,
    write_store,
)

LOOK = tool_call("get_order_details", order_id="#W1")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


def said(output):
    (message,) = output["observations"]
    assert message["role"] == "user"
    return message["content"]


# The six behaviors that the public draft of this environment is tested for


def test_init_builds_the_system_prompt_and_the_opening(shop):
    env = make_env(shop)
    messages, info = env.init([{"role": "user", "content": "placeholder"}])
    assert [message["role"] for message in messages] == ["system", "user"]
    assert info == {"task_index": 0}
    system = messages[0]["content"]
    wanted = ("<tool_call>", "</tool_call>", "# Policy", "Be kind.", "transfer_to_human_agents")
    assert all(text in system for text in wanted)
    assert messages[1]["content"] == OPENING


def test_the_gold_actions_and_a_closing_message_are_rewarded(shop):
    env = open_env(shop)
    for action in env.tau_env.task.actions:
        output = env.step(tool_call(action.name, **action.kwargs))
        assert (output["reward"], output["done"]) == (0.0, False)
        assert output["metadata"]["source"] == action.name
    output = env.step("Your order is cancelled.")
    assert (output["reward"], output["done"], output["observations"]) == (1.0, True, [])
    assert output["metadata"]["source"] == "user"
    metrics = env.get_metrics()
    assert (metrics["success"], metrics["num_tool_errors"], metrics["num_turns"]) == (1, 0, 3)


def test_an_immediate_goodbye_is_not_rewarded(shop):
    output = open_env(shop).step("Goodbye")
    assert (output["reward"], output["done"]) == (0.0, True)
    breakdown = output["metadata"]["reward_breakdown"]
    assert breakdown["r_db"] == 0.0
    assert breakdown["differing_records"] == [
        {"record": "orders/#W1", "fields": ["cancel_reason", "payment_history", "status"]}
    ]


def test_malformed_json_is_an_observation_and_costs_a_turn(shop):
    env = open_env(shop)
    output = env.step("<tool_call>{bad</tool_call>")
    assert "Error: could not parse tool call" in said(output)
    assert output["metadata"]["error"] == said(output)
    assert (output["reward"], output["done"]) == (0.0, False)
    metrics = env.get_metrics()
    assert (metrics["num_tool_errors"], metrics["parse_errors"], metrics["num_turns"]) == (1, 1, 1)


def test_a_reading_tool_returns_one_observation(shop):
    assert json.loads(said(open_env(shop).step(LOOK)))["order_id"] == "#W1"


def test_one_turn_is_the_last_where_there_is_one(shop):
    env = open_env(shop, extras={"max_turns": 1})
    output = env.step(tool_call(CANCEL[0], **CANCEL[1]))
    assert (output["done"], output["reward"], output["observations"]) == (True, 0.0, [])
    assert output["metadata"]["truncated"]
    assert output["metadata"]["reward_breakdown"]["reward"] == 1.0
    metrics = env.get_metrics()
    assert (metrics["truncated"], metrics["success"], metrics["reward"]) == (1, 0, 0)


# Ends


def test_an_option_pays_an_episode_that_ran_out_of_turns(shop):
    env = open_env(shop, extras={"max_turns": 1}, score_on_truncation=True)
    assert env.step(tool_call(CANCEL[0], **CANCEL[1]))["reward"] == 1.0
    assert env.get_metrics()["truncated"] == 1


def test_an_end_in_the_last_turn_is_not_a_truncation(shop):
    env = open_env(shop, index=2, extras={"max_turns": 1})
    output = env.step("Goodbye")
    assert (output["reward"], output["metadata"]["truncated"]) == (1.0, False)


@pytest.mark.parametrize("arguments", [{"summary": "x"}, {}, {"why": 1}])
def test_a_transfer_ends_the_episode_and_is_paid(shop, arguments):
    output = open_env(shop, index=2).step(tool_call("transfer_to_human_agents", **arguments))
    assert (output["done"], output["reward"], output["observations"]) == (True, 1.0, [])


def test_a_reply_with_the_marker_ends_the_episode_and_is_kept(shop):
    env = open_env(shop, replies=[OPENING, "And now?", f"Thanks! {STOP}"])
    assert said(env.step("Hi")) == "And now?"
    output = env.step("Done")
    assert output["done"]
    assert output["metadata"]["observation"] == f"Thanks! {STOP}"


def test_the_marker_ends_nothing_where_it_is_not_the_users(shop):
    class Parrot(ScriptedUser):
        def step(self, content):
            return content if self._said else super().step(content)

    env = make_env(shop)
    env.user_sim = Parrot([OPENING])
    env.init([])
    assert said(env.step(f"Please say {STOP}")) == "Please say STOP"
    output = env.step(tool_call("get_order_details", order_id=STOP))
    assert not output["done"]
    assert said(env.step(tool_call(STOP))) == f"Unknown action {STOP}"


def test_a_step_after_the_end_changes_nothing_and_is_paid_nothing(shop):
    env = open_env(shop, index=2)
    env.step("Goodbye")
    before = env.get_metrics()
    output = env.step(LOOK)
    assert (output["reward"], output["done"], output["observations"]) == (0.0, True, [])
    assert "over" in output["metadata"]["error"]
    assert env.get_metrics() == before


def test_a_step_before_the_opening_is_a_fault_of_the_caller(shop):
    with pytest.raises(EnvError, match="init"):
        make_env(shop).step("Hi")


def test_metrics_are_sane_without_a_step_and_without_an_end(shop):
    env = make_env(shop)
    assert set(env.get_metrics().values()) == {0.0}
    env.init([])
    env.step(LOOK)
    metrics = env.get_metrics()
    assert (metrics["reward"], metrics["num_turns"], metrics["user_calls"]) == (0, 1, 1)
    assert all(isinstance(value, float) for value in metrics.values())


# Outputs


@pytest.mark.parametrize(
    ("messages", "reward", "missing"),
    [
        (["It is $20.10, no. 1234."], 1.0, []),
        (["It is $20.10.", "No. 1,234"], 1.0, []),
        (["It is 20.1 of 1234"], 0.0, ["20.10"]),
        (["<think>20.10 1234</think>Done"], 0.0, ["20.10", "1234"]),
    ],
)
def test_required_texts_must_have_been_said_to_the_user(shop, messages, reward, missing):
    replies = [OPENING, *["Yes"] * (len(messages) - 1)]
    env = open_env(shop, index=1, replies=replies)
    for name, arguments in (CANCEL, RETURN):
        env.step(tool_call(name, **arguments))
    outputs = [env.step(message) for message in messages]
    assert outputs[-1]["reward"] == reward
    breakdown = outputs[-1]["metadata"]["reward_breakdown"]
    assert breakdown["outputs_missing"] == missing
    assert breakdown["r_db"] == 1.0


def test_judging_leaves_the_episode_as_it_is(shop):
    env = open_env(shop)
    env.step(LOOK)
    before = env.tau_env.db.state_hash()
    assert env.tau_env.grade() == env.tau_env.grade()
    assert env.tau_env.db.state_hash() == before
    assert [action.name for action in env.tau_env.actions] == ["get_order_details"]


def test_a_task_that_an_episode_changes_is_its_own(shop):
    env = make_env(shop)
    env.tau_env.task.actions.clear()
    assert len(make_env(shop).tau_env.task.actions) == 2


# Counts and options


def test_everything_odd_is_counted(shop):
    env = open_env(shop, replies=[OPENING, "Yes", "Yes", "Yes"])
    env.step(f"One moment {LOOK}")
    assert "Only the first" in said(env.step(f"{LOOK}{LOOK}"))
    env.step(tool_call("no_such_tool"))
    env.step(tool_call("get_order_details", order_id="W1"))
    assert "could not parse" in said(env.step("</tool_call>"))
    assert said(env.step('[TOOL_CALLS]think{"thought": "x"}')) == ""
    assert "empty" in said(env.step("<think>hm"))
    assert said(env.step(tool_call("respond", content="Hi"))) == "Yes"
    assert "respond needs" in said(env.step(tool_call("respond", text="Hi")))
    assert "respond needs" in said(env.step(tool_call("respond", content=5)))
    wanted = {
        "mixed_turns": 1,
        "extra_tool_calls": 1,
        "tool_errors": 2,
        "suspect_tool_text": 1,
        "parse_errors": 4,
        "num_tool_errors": 3,
        "num_turns": 10,
        "user_calls": 2,
    }
    metrics = env.get_metrics()
    assert {name: metrics[name] for name in wanted} == wanted


def test_options_change_what_is_shown(shop):
    thought = tool_call("think", thought="x")
    assert said(open_env(shop).step(thought)) == ""
    assert said(open_env(shop, empty_observation="(nothing)").step(thought)) == "(nothing)"
    wrapped = said(open_env(shop, wrap_tool_results=True).step(LOOK))
    assert wrapped.startswith('<tool_response>\n{"order_id"')
    (system, _), _ = make_env(shop, show_rules=False).init([])
    assert "Be kind." not in system["content"]
    strict = open_env(shop, parsing="strict").step(f"Hi {LOOK}")
    assert "no text beside a call" in said(strict)


def test_half_surrogates_never_leave_the_environment(shop):
    env = open_env(shop, replies=[OPENING, "a\ud800"])
    output = env.step(
        '<tool_call>{"name": "x\\ud800", "arguments": {"\\udc00": "\\udc00"}}</tool_call>'
    )
    json.dumps(output, ensure_ascii=False).encode()
    assert said(output) == "Unknown action x\ufffd"
    assert said(env.step("Hi \udc00")) == "a\ufffd"


# Settings and tasks


@dataclass
class Foreign:
    request_timeout: int = 7


@pytest.mark.parametrize("given", [None, {}, TauBenchEnvConfig(), SimpleNamespace()])
def test_defaults_do_not_depend_on_how_settings_come(given):
    assert read_config(given) == TauBenchEnvConfig()
    assert read_config(given).user_sim_max_tokens == 512


def test_settings_come_as_mapping_dataclass_or_object():
    assert read_config({"request_timeout": 7}).request_timeout == 7.0
    assert read_config(Foreign()).request_timeout == 7.0
    assert read_config(SimpleNamespace(request_timeout=7)).request_timeout == 7.0
    assert read_config({"request_timeout": None}).request_timeout == 120.0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"user_strategi": "x"}, "Did you mean 'user_strategy'"),
        ({"parsing": "strickt"}, "Did you mean 'strict'"),
        ({"request_timeout": 0}, "more than 0"),
        ({"user_sim_max_tokens": "many"}, "must be int"),
        ({"show_rules": 1}, "must be bool"),
        ({"user_replies": "Hi"}, "list of texts"),
        ({"user_strategy": "scriptet"}, "Did you mean 'scripted'"),
        (5, "give a mapping"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_next_move(shop, settings, told):
    given = {"data_dir": str(shop), **settings} if isinstance(settings, dict) else settings
    with pytest.raises(DataError, match=told):
        TauBenchEnv({"user_strategy": "scripted", **given} if given != 5 else 5, {"task_index": 0})


def test_other_domains_are_not_there():
    with pytest.raises(NotImplementedError, match=r"'airlines'.*Did you mean 'airline'"):
        TauBenchEnv({"domain": "airlines"}, {"task_index": 0})


@pytest.mark.parametrize(
    ("extras", "told"),
    [
        ({"task_index": 3}, "task_index is 3, but split 'test' has the tasks 0 to 2"),
        ({"task_index": -1}, "task_index is -1"),
        ({"task_index": "x"}, "task_index is 'x'"),
        ({"task_index": 0.5}, "task_index is 0.5"),
        ({"task_index": True}, "task_index is True"),
        ({"task_index": None}, "task_index is None"),
        ({"task_split": "tests"}, "Did you mean 'test'"),
        ({"max_turns": 0}, "at least 1"),
    ],
)
def test_a_wrong_task_is_refused_by_the_constructor(shop, extras, told):
    with pytest.raises(DataError, match=told):
        make_env(shop, extras=extras)


@pytest.mark.parametrize("index", ["1", 1.0])
def test_a_task_index_may_be_a_text_or_a_float(shop, index):
    assert make_env(shop, extras={"task_index": index}).tau_env.index == 1


def test_a_data_sets_own_columns_are_let_through(shop):
    assert make_env(shop, extras={"reward_spec": {}, "uid": "7"}).max_turns == 30


def test_it_is_made_by_name(shop):
    assert isinstance(
        make("tau_bench", {"data_dir": str(shop), "user_strategy": "scripted"}, {"task_index": 0}),
        TauBenchEnv,
    )
    assert "scripted" in user_strategies()


def test_what_a_score_depends_on_is_told(shop):
    facts = comparability({"data_dir": str(shop), "user_strategy": "scripted"})
    assert facts["data"]["origin"] == "env_config.data_dir"
    assert len(facts["data"]["checksum"]) == 64
    assert facts["user"]["strategy"] == "scripted"
    json.dumps(facts)

"""Calls in the notations of other models: carried out or refused, in both modes, and never said."""

import json

import pytest

from skillwright.core import Act, Completion, ToolCall
from skillwright.worlds.tau_bench import TauBenchEnv
from tau_store import OPENING, make_env, write_store
from written_calls import FORMS, MESSAGES, ORDER, UNREADABLE, J

MODES = ("tags", "native", "native, read by the agent")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("shop"))


def played(shop, mode, text, **config):
    """Take one turn; return the environment and its output."""
    env: TauBenchEnv = make_env(
        shop, replies=[OPENING, "Yes", "Yes"], tools="native" if mode != "tags" else mode, **config
    )
    env.init([])
    if mode == "tags":
        return env, env.step(text)
    if mode == "native":
        return env, env.step_native(text, [])
    act = Act.of(Completion(text), offered_tools=True, tools=env.native_tools())
    return env, env.step_native(act.text, act.tool_calls)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_any_notation_is_carried_out_and_nothing_is_said(shop, form, mode):
    env, output = played(shop, mode, FORMS[form])
    assert env.tau_env.said == []
    called = output["metadata"]["tool_call"]
    assert (called["name"], json.loads(called["arguments"])) == ("get_order_details", ORDER)
    assert json.loads(output["metadata"]["observation"])["order_id"] == "#W1"
    assert env.get_metrics()["parse_errors"] == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", UNREADABLE)
def test_a_call_without_one_meaning_is_refused_with_the_reason(shop, form, mode):
    env, output = played(shop, mode, UNREADABLE[form])
    assert env.tau_env.said == []
    assert env.tau_env.actions == []
    assert output["metadata"]["error"].startswith("Error: could not parse tool call (")
    metrics = env.get_metrics()
    assert (metrics["parse_errors"], metrics["num_tool_errors"]) == (1, 1)


@pytest.mark.parametrize("mode", MODES)
def test_strict_parsing_takes_the_notation_that_was_asked_for_alone(shop, mode):
    asked = f'<tool_call>{{"name": "get_order_details", "arguments": {J}}}</tool_call>'
    for form, text in {**FORMS, "as asked": asked}.items():
        env, output = played(shop, mode, text, parsing="strict")
        is_asked = mode == "tags" and output["metadata"].get("source") == "get_order_details"
        assert is_asked or "could not parse tool call" in output["metadata"]["error"], form
        assert env.tau_env.said == []
        if form in ("as asked", "Mistral's name", "parameters"):
            assert is_asked == (mode == "tags" and form == "as asked")


@pytest.mark.parametrize(
    ("written", "name"),
    [('"{}"', "list_all_product_types"), ("", "list_all_product_types"), (json.dumps(J), None)],
)
def test_native_and_written_arguments_are_read_alike(shop, written, name):
    name = name or "get_order_details"
    native = make_env(shop, tools="native")
    native.init([])
    one = native.step_native("", [ToolCall("a", name, written)])["metadata"]
    call = json.dumps({"name": name, "arguments": written})
    _, output = played(shop, "tags", f"<tool_call>{call}</tool_call>")
    assert one["tool_call"] == output["metadata"]["tool_call"]
    assert one["observation"] == output["metadata"]["observation"]


def test_counts_tell_other_notations_from_the_one_that_was_asked_for(shop):
    suspects = {
        form: played(shop, "tags", FORMS[form])[0].get_metrics()["suspect_tool_text"]
        for form in ("Hermes", "Mistral's name", "kwargs", "JSON alone")
    }
    assert suspects == {"Hermes": 0, "Mistral's name": 1, "kwargs": 1, "JSON alone": 1}


RESPOND = '{"name": "respond", "arguments": {"content": "Hi there"}}'


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    [
        RESPOND,
        f"Action:\n{RESPOND}",
        f"Thought:\nI greet.\n\nAction:\n{RESPOND}",
        f"<tool_call>{RESPOND}</tool_call>",
    ],
)
def test_the_action_respond_of_tau_bench_says_its_content_alone(shop, mode, text):
    env, _ = played(shop, mode, text)
    assert env.tau_env.said == ["Hi there"]


@pytest.mark.parametrize("arguments", ["{'order_id': '#W1'}", '{"order_id": "#W1",}', f"{J}}}"])
def test_native_arguments_are_repaired_and_counted_unless_parsing_is_strict(shop, arguments):
    call = ToolCall("a", "get_order_details", arguments)
    for parsing, actions in (("default", 1), ("strict", 0)):
        env = make_env(shop, tools="native", parsing=parsing)
        env.init([])
        env.step_native("", [call])
        assert len(env.tau_env.actions) == actions
        metrics = env.get_metrics()
        assert (metrics["suspect_tool_text"], metrics["parse_errors"]) == (actions, 1 - actions)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", MESSAGES)
def test_a_message_with_json_code_prices_or_markup_reaches_the_customer_as_it_is(shop, text, mode):
    env, output = played(shop, mode, text)
    assert env.tau_env.said == [text]
    assert output["metadata"]["source"] == "user"
    assert env.get_metrics()["parse_errors"] == 0

import json

import pytest

from mock_openai import completion
from skillwright.core import Sampling, Usage
from skillwright.models import EndpointFault, OpenAIChatConfig, Prices
from skillwright.models.dialects.chat_completions import join_events, to_completion
from skillwright.models.dialects.openai_chat import OpenAIChat

CONFIG = OpenAIChatConfig(model="m", base_url="http://localhost:8000/v1")


def read(config=CONFIG, **message):
    return to_completion(completion(message.pop("content", None), **message), config)


def test_a_plain_answer_is_read_with_its_usage_and_the_name_that_answered():
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    answer = read(content="hi", model="m-2026-11-01", usage=usage)
    assert (answer.text, answer.finish_reason, answer.model) == ("hi", "stop", "m-2026-11-01")
    assert answer.usage == Usage(1, 100, 20, 60, cost_usd=None)


def test_cost_follows_the_prices_and_is_unknown_without_them():
    usage = {
        "prompt_tokens": 1_000_000,
        "completion_tokens": 500_000,
        "prompt_tokens_details": {"cached_tokens": 400_000},
    }
    prices = Prices(input_usd_per_mtok=2, output_usd_per_mtok=10, cached_input_usd_per_mtok=0.5)
    priced = CONFIG.model_copy(update={"prices": prices})
    assert read(priced, usage=usage).usage.cost_usd == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 5)
    plain = Prices(input_usd_per_mtok=2, output_usd_per_mtok=10)
    full = CONFIG.model_copy(update={"prices": plain})
    assert read(full, usage=usage).usage.cost_usd == pytest.approx(7)
    assert read(usage=usage).usage.cost_usd is None
    assert read(priced, usage=None).usage.cost_usd is None


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens_details": None}, "many"]
)
def test_missing_counts_are_no_error(usage):
    assert read(content="hi", usage=usage).usage.input_tokens == 0


def test_null_content_with_tool_calls_is_an_answer():
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": '}},
        {"type": "function", "function": {"name": "go", "arguments": {"to": "é"}}},
    ]
    answer = read(tool_calls=calls, finish_reason="tool_calls")
    assert answer.text == ""
    assert answer.finish_reason == "tool_calls"
    assert [(c.id, c.name, c.arguments) for c in answer.tool_calls] == [
        ("c1", "look", '{"at": '),
        ("call_1", "go", '{"to": "é"}'),
    ]


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "yes", "reasoning": "because"}, "yes", "because"),
        ({"content": "yes", "reasoning_content": "because"}, "yes", "because"),
        (
            {"content": "yes", "reasoning_details": [{"text": "be"}, {"text": "cause"}]},
            "yes",
            "because",
        ),
        ({"content": "<think>\nbecause\n</think>\n\nyes"}, "yes", "because"),
        ({"content": "because\n</think>\nyes"}, "yes", "because"),
        ({"content": "<think>bec", "finish_reason": "length"}, "", "bec"),
        ({"content": "I <think> not"}, "I <think> not", ""),
        ({"content": "say <think>x</think>"}, "say <think>x</think>", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
    ],
)
def test_reasoning_is_kept_apart_wherever_the_server_puts_it(message, text, reasoning):
    answer = read(**message)
    assert (answer.text, answer.reasoning) == (text, reasoning)


@pytest.mark.parametrize("given", ["eos", "function_call", None, 3])
def test_an_unknown_finish_reason_is_other(given):
    assert read(content="x", finish_reason=given).finish_reason == "other"


def test_a_structured_refusal_is_told_apart():
    answer = read(refusal="I cannot do that.")
    assert (answer.text, answer.finish_reason) == ("I cannot do that.", "content_filter")


def test_the_choice_with_the_lowest_index_is_the_answer():
    payload = completion("second")
    payload["choices"][0]["index"] = 1
    payload["choices"].append(completion("first")["choices"][0])
    assert to_completion(payload, CONFIG).text == "first"


BROKEN = {"error": {"message": "late"}, "message": {"content": "ha"}}


@pytest.mark.parametrize(
    "payload",
    [None, [], "x", {}, {"choices": []}, {"choices": [{}]}, {"choices": [BROKEN]}],
)
def test_a_reply_without_a_choice_is_a_fault_of_the_endpoint(payload):
    with pytest.raises(EndpointFault, match=r"localhost:8000.*without a choice for model 'm'"):
        to_completion(payload, CONFIG)


SIGNED = {
    "id": "call_a",
    "type": "function",
    "function": {"name": "look", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "s1"}},
}


def sent_back(answer, answered):
    """Return the calls of the next request, where only the first ones were answered."""
    said = answer.message()
    said["tool_calls"] = said["tool_calls"][:answered]
    results = [
        {"role": "tool", "tool_call_id": one["id"], "content": ""} for one in said["tool_calls"]
    ]
    body = OpenAIChat(CONFIG).request([said, *results], [{"type": "function"}], Sampling())
    return body["messages"][0]["tool_calls"]


def test_what_a_server_signs_inside_a_call_comes_back_inside_it():
    plain = {name: value for name, value in SIGNED.items() if name != "extra_content"}
    second = {**plain, "id": "call_b"}
    answer = read(tool_calls=[SIGNED, second], finish_reason="tool_calls")
    assert sent_back(answer, 2) == [SIGNED, second]
    assert sent_back(answer, 1) == [SIGNED]
    assert read(tool_calls=[plain], finish_reason="tool_calls").native is None


def test_what_is_signed_in_a_stream_is_kept_too():
    pieces = [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "look"}},
        {"index": 0, "function": {"arguments": "{}"}, "extra_content": SIGNED["extra_content"]},
    ]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]} for one in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    answer = to_completion(join_events(events, CONFIG), CONFIG)
    assert sent_back(answer, 1) == [SIGNED]


@pytest.mark.parametrize("given", [0, False, [], 7, "7"])
def test_arguments_that_are_no_object_stay_what_they_are(given):
    call = {"id": "a", "function": {"name": "look", "arguments": given}}
    (read_call,) = read(tool_calls=[call], finish_reason="tool_calls").tool_calls
    assert json.loads(read_call.arguments) == (int(given) if given == "7" else given)

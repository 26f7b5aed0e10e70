"""Replies that are half an error, count strangely, or are written as few others write them."""

import json

import pytest

from mock_openai import MockOpenAI, completion, raw
from skillwright.core import ModelRefused, Purpose, Sampling, Usage
from skillwright.models import (
    ClaudeChatConfig,
    EndpointFault,
    HttpClient,
    OpenAIChatConfig,
    Prices,
    make_model,
    parse_model_config,
)
from skillwright.models.dialects.chat_completions import join_events, read_usage, to_completion
from skillwright.models.dialects.claude import ClaudeChat
from skillwright.models.dialects.claude import join_events as join_claude_events
from skillwright.models.dialects.claude import to_completion as to_claude_completion
from skillwright.models.dialects.openai_chat import OpenAIChat
from skillwright.models.dialects.openai_responses import OpenAIResponses
from skillwright.models.http.client import HttpReply, decode

HELLO = [{"role": "user", "content": "hello"}]
CONFIG = OpenAIChatConfig(
    model="m",
    base_url="http://host/v1",
    prices=Prices(input_usd_per_mtok=1, output_usd_per_mtok=10),
)
CLAUDE = ClaudeChatConfig(model="claude-opus-5-5")
CHARGED = Usage(input_tokens=10, output_tokens=1, cost_usd=20e-6)


def chunk(delta=None, finish=None, **choice):
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish, **choice}]}


def calls_of(*pieces):
    events = [chunk({"tool_calls": [piece]}) for piece in pieces]
    answer = to_completion(join_events([*events, chunk(finish="tool_calls")], CONFIG), CONFIG)
    return [(call.id, call.name, call.arguments) for call in answer.tool_calls]


def piece(call_id, name, arguments, **place):
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, **place}


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_an_answer_that_broke_off_is_a_fault_and_what_it_cost_is_told(finish):
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    with pytest.raises(EndpointFault, match=f"broke off.*{finish}") as caught:
        to_completion(completion("half", finish_reason=finish, usage=usage), CONFIG)
    assert caught.value.usage.cost_usd == pytest.approx(CHARGED.cost_usd)
    assert caught.value.usage.calls == 0
    assert caught.value.usage.input_tokens == 10


def test_a_reply_without_a_choice_is_charged_all_the_same():
    payload = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}
    with pytest.raises(EndpointFault) as caught:
        to_completion(payload, CONFIG)
    assert caught.value.usage.input_tokens == 10


def test_an_error_in_the_middle_of_a_stream_is_a_fault():
    half = {"error": {"code": 502, "message": "provider gone"}, **chunk(finish="error")}
    reply = HttpReply("u", 200, {}, [chunk({"content": "par"}), half])
    assert isinstance(OpenAIChat(CONFIG).fault(reply, ""), EndpointFault)
    inside = [chunk({"content": "par"}), chunk(finish="stop", error={"message": "gone"})]
    with pytest.raises(EndpointFault, match="gone"):
        to_completion(join_events(inside, CONFIG), CONFIG)


def test_an_error_beside_choices_is_a_fault():
    payload = {**completion("half"), "error": {"message": "upstream died", "code": 502}}
    assert isinstance(OpenAIChat(CONFIG).fault(HttpReply("u", 200, {}, payload), ""), EndpointFault)


def test_a_list_with_a_whole_answer_is_that_answer():
    payload = [completion("blue", usage={"prompt_tokens": 10, "completion_tokens": 1})]
    answer = to_completion(join_events(payload, CONFIG), CONFIG)
    assert (answer.text, answer.usage.input_tokens) == ("blue", 10)


def test_streamed_calls_are_told_apart_by_place_or_id():
    assert calls_of(piece("a", "f", {"x": 1}, index=0)) == [("a", "f", '{"x": 1}')]
    assert calls_of(piece("a", 5, "{}", index=0)) == [("a", "5", "{}")]
    both = [("a", "f", "{}"), ("b", "g", "[]")]
    assert calls_of(piece("a", "f", "{}"), piece("b", "g", "[]")) == both
    assert calls_of(piece("a", "f", "{}", index=0), piece("b", "g", "[]", index=0)) == both
    pieces = (piece("a", "f", "{"), {"function": {"arguments": "}"}}, piece("b", "g", "[]"))
    assert calls_of(*pieces) == both
    again = (piece("a", "f", "{", index=0), piece("a", "f", "}", index=0))
    assert calls_of(*again) == [("a", "f", "{}")]


@pytest.mark.parametrize(
    ("told", "tokens", "is_priced"),
    [
        ({"prompt_tokens": 12.0, "completion_tokens": 3.0}, (12, 3), True),
        ({"input_tokens": 12, "output_tokens": 3}, (12, 3), True),
        ({"prompt_tokens": 12, "completion_tokens": 0}, (12, 0), True),
        ({"total_tokens": 500}, (500, 0), False),
        ({"prompt_tokens": None, "completion_tokens": None}, (0, 0), False),
        ({"prompt_tokens": True, "completion_tokens": True}, (0, 0), False),
        ({"prompt_tokens": "12", "completion_tokens": 2.5}, (0, 0), False),
        ({"prompt_tokens": 12}, (12, 0), False),
        ({"prompt_tokens": 2**70, "completion_tokens": 1e300}, (10**12, 10**12), True),
        ({"prompt_tokens": -1, "completion_tokens": 1}, (0, 1), False),
        (None, (0, 0), False),
    ],
)
def test_a_cost_is_known_only_where_the_counts_are(told, tokens, is_priced):
    usage = read_usage(told, CONFIG)
    assert (usage.input_tokens, usage.output_tokens) == tokens
    assert (usage.cost_usd is not None) == is_priced


@pytest.mark.parametrize("last", [{"input_tokens": None}, {"input_tokens": 0}, {}])
def test_the_end_of_a_stream_does_not_wipe_what_its_beginning_counted(last):
    began = {"input_tokens": 100, "cache_read_input_tokens": 50, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": {"content": [], "usage": began}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {**last, "cache_read_input_tokens": None, "output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    usage = to_claude_completion(join_claude_events(events, CLAUDE), CLAUDE).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (150, 50, 7)


@pytest.mark.parametrize(
    ("ttl", "detail", "cost"),
    [
        ("5m", {}, 5.0),
        ("1h", {}, 8.0),
        ("1h", {"cache_creation": {"ephemeral_1h_input_tokens": 500_000}}, 6.5),
        ("5m", {"cache_creation": {"ephemeral_1h_input_tokens": 1_000_000}}, 8.0),
    ],
)
def test_what_is_cached_for_an_hour_costs_its_own_price(ttl, detail, cost):
    usage = {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_creation_input_tokens": 1_000_000,
        **detail,
    }
    payload = {
        "content": [{"type": "text", "text": "a"}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    config = CLAUDE.model_copy(update={"prompt_cache": ttl})
    assert to_claude_completion(payload, config).usage.cost_usd == pytest.approx(cost)


@pytest.mark.parametrize("wanted", [{"temperature": 0.2}, {"top_p": 0.5}])
def test_a_model_that_thinks_is_asked_for_no_sampling_that_it_refuses(wanted):
    thinking = {"thinking": "enabled", "thinking_budget": 2048}
    chat = ClaudeChat(ClaudeChatConfig(model="claude-sonnet-4-5", **thinking))
    with pytest.raises(ModelRefused, match=r"nothing was sent: .* while thinking is enabled"):
        chat.request(HELLO, (), Sampling(**wanted))


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"status": "incomplete", "incomplete_details": None}, "other"),
        ({"status": "completed"}, "stop"),
        ({"status": "failed", "error": None}, None),
        ({"status": "cancelled"}, None),
    ],
)
def test_half_a_response_is_no_whole_answer(fields, finish):
    output = [{"type": "message", "content": [{"type": "output_text", "text": "par"}]}]
    payload = {"output": output, "usage": {"input_tokens": 10, "output_tokens": 1}, **fields}
    route = OpenAIResponses(CONFIG.model_copy(update={"transport": "responses"}))
    if finish:
        assert route.completion(payload, {}).finish_reason == finish
        return
    with pytest.raises(EndpointFault, match=fields["status"]) as caught:
        route.completion(payload, {})
    assert caught.value.usage.input_tokens == 10


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"a": "caf\xc3\xa9"}',
        b'{"a": "caf\xe9"}',
        b'{"a": "caf\xc3\xa9", "b": NaN}',
    ],
)
def test_json_that_other_readers_take_is_read(body):
    assert decode(body)["a"] == "café"


async def test_an_error_that_is_called_a_stream_keeps_its_code():
    error = {"error": {"message": "no such model", "code": "model_not_found"}}
    async with MockOpenAI() as server, HttpClient() as client:
        settings = {"backend": "openai_chat", "model": "m", "base_url": server.base_url}
        model = make_model(parse_model_config({**settings, "api_key": server.api_key}), client)
        server.next(raw(json.dumps(error).encode(), "text/event-stream", 404))
        with pytest.raises(ModelRefused, match=r"answered 404 .*no such model"):
            await model.complete(HELLO, purpose=Purpose.ROLLOUT)

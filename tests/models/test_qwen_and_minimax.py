import json

import pytest

from mock_openai import completion, raw
from skillwright.core import (
    ConfigError,
    ModelRefused,
    Purpose,
    RequestRefused,
    Sampling,
    ToolCall,
)
from skillwright.models import (
    EndpointFault,
    MiniMaxChatConfig,
    QwenChatConfig,
    make_model,
    parse_model_config,
)
from skillwright.models.dialects.chat_completions import fault_of_reply
from skillwright.models.dialects.minimax import MiniMaxChat
from skillwright.models.dialects.qwen import QwenChat
from skillwright.models.http.client import HttpReply

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def ask_qwen(sampling=Sampling(), tools=(), **settings):
    config = QwenChatConfig(**{"model": "Qwen/Qwen3.5-4B", **settings})
    return QwenChat(config).request(HELLO, tools, sampling)


def ask_minimax(sampling=Sampling(), **settings):
    config = MiniMaxChatConfig(**{"model": "MiniMax-M3", **settings})
    return MiniMaxChat(config).request(HELLO, (), sampling)


# --- Qwen ------------------------------------------------------------------------------------


def test_a_bare_call_leaves_the_thinking_to_the_server():
    body = ask_qwen()
    assert body == {"model": "Qwen/Qwen3.5-4B", "messages": HELLO, "temperature": 0.7}


@pytest.mark.parametrize(
    ("thinking", "switch", "sampled"),
    [("enabled", True, (0.6, 0.95, 20)), ("disabled", False, (0.7, 0.8, 20))],
)
def test_a_server_of_ones_own_has_the_switch_in_its_template(thinking, switch, sampled):
    body = ask_qwen(thinking=thinking)
    assert body["chat_template_kwargs"] == {"enable_thinking": switch}
    assert (body["temperature"], body["top_p"], body["top_k"]) == sampled
    assert "stream" not in body


def test_settings_come_before_the_advice_and_a_call_before_both():
    body = ask_qwen(Sampling(temperature=0.1, seed=3), thinking="enabled", top_p=0.5)
    assert (body["temperature"], body["top_p"], body["top_k"], body["seed"]) == (0.1, 0.5, 20, 3)
    assert "seed" not in ask_qwen(Sampling(seed=3), send_seed=False)


def test_other_arguments_of_the_template_are_kept():
    extra = {"chat_template_kwargs": {"x": 1}}
    body = ask_qwen(thinking="disabled", extra_body=extra)
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}


def test_the_service_has_the_switch_at_the_top_and_streams_its_thoughts():
    body = ask_qwen(region="singapore", thinking="enabled", thinking_budget=100)
    assert (body["enable_thinking"], body["thinking_budget"], body["stream"]) == (True, 100, True)
    assert body["stream_options"] == {"include_usage": True}
    assert "chat_template_kwargs" not in body
    assert "stream" not in ask_qwen(region="singapore", thinking="disabled")


def test_a_region_is_an_address_with_a_key_of_its_own(monkeypatch, client):
    config = QwenChatConfig(model="m", region="beijing")
    assert config.url == "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions"
    monkeypatch.delenv("DASHSCOPE_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="DASHSCOPE_API_KEY"):
        make_model(config, client)


def test_the_service_takes_no_schema_and_a_server_of_ones_own_does():
    sampling = Sampling(json_schema={"type": "object"})
    assert "response_format" in ask_qwen(sampling)
    with pytest.raises(ModelRefused, match="nothing was sent"):
        ask_qwen(sampling, region="singapore")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"region": "singapore", "base_url": "http://host/v1"}, "name two places"),
        ({"thinking": "disabled", "thinking_budget": 5}, "has no use"),
        ({"thinking": "on"}, "'thinking' is 'on'"),
        ({"region": "mars"}, "'region' is 'mars'"),
    ],
)
def test_settings_of_qwen_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        parse_model_config({"backend": "qwen_chat", "model": "m", **settings})


def test_a_tool_call_that_the_server_left_in_the_text_is_left_to_the_agent():
    payload = completion('<tool_call>{"name": "look"}</tool_call>')
    answer = QwenChat(QwenChatConfig(model="m")).completion(payload, {"tools": [{}]})
    assert (answer.text, answer.tool_calls) == ('<tool_call>{"name": "look"}</tool_call>', ())


@pytest.mark.parametrize(
    ("status", "code", "message", "kind", "words"),
    [
        (429, "insufficient_quota", "Allocated quota exceeded", EndpointFault, ""),
        (429, "Throttling.RateQuota", "Request rate increased too quickly", EndpointFault, ""),
        (403, "Arrearage", "unpaid", ModelRefused, "top it up"),
        (400, "data_inspection_failed", "bad words", RequestRefused, "content policy"),
        (400, "InvalidParameter", "Range of input length is 1-9", RequestRefused, "Shorten"),
        (401, "invalid_api_key", "no", ModelRefused, "Check"),
    ],
)
def test_the_errors_of_the_service_are_told_apart(status, code, message, kind, words):
    config = QwenChatConfig(model="m", region="singapore", api_key="k")
    body = {"error": {"message": message, "code": code}}
    error = fault_of_reply(HttpReply(config.url, status, {}, body), config, "k")
    assert isinstance(error, kind)
    assert words in str(error)


async def test_a_stream_is_read_as_the_answer_that_it_is(mock_openai, client, clock):
    pieces = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "h"}}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "m"}}]},
        {"choices": [{"index": 0, "delta": {"content": "é"}}], "model": "m-1"},
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        {"choices": [{"index": 0, "delta": _call(id="c1", name="look", arguments='{"a"')}]},
        {"choices": [{"index": 0, "delta": _call(arguments=": 1}"), "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    ]
    whole = "".join(f"data: {json.dumps(each)}\n\n" for each in pieces) + "data: [DONE]\n\n"
    cut = "".join(f"data: {json.dumps(each)}\r\n\r\n" for each in pieces[:3])
    broken = 'data: {"error": {"message": "late", "code": 503}}\n\n'
    mock_openai.next(*(raw(each.encode(), "text/event-stream") for each in (cut, broken, whole)))
    config = QwenChatConfig(model="m", base_url=mock_openai.base_url, api_key="sk-mock")
    chat = make_model(config, client, sleep=clock.sleep, clock=clock)
    answer = await chat.complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.reasoning, answer.model) == ("é", "hm", "m-1")
    assert answer.tool_calls == (ToolCall("c1", "look", '{"a": 1}'),)
    assert (answer.finish_reason, answer.usage.input_tokens) == ("tool_calls", 7)
    assert answer.usage.failed_calls == 2


def _call(id=None, name=None, arguments=""):
    return {
        "tool_calls": [{"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}]
    }


# --- MiniMax ---------------------------------------------------------------------------------


def test_a_bare_call_asks_as_the_vendor_advises():
    assert ask_minimax() == {
        "model": "MiniMax-M3",
        "messages": HELLO,
        "temperature": 1.0,
        "top_p": 0.95,
        "reasoning_split": True,
    }


def test_the_bound_has_its_new_name_and_thinking_a_switch_and_no_seed_is_sent():
    body = ask_minimax(Sampling(max_tokens=9, seed=3), thinking="disabled")
    assert (body["max_completion_tokens"], body["thinking"]) == (9, {"type": "disabled"})
    assert "seed" not in body


@pytest.mark.parametrize(
    ("region", "host"), [("global_en", "api.minimax.io"), ("cn_zh", "api.minimaxi.com")]
)
def test_a_region_of_minimax_is_a_host_that_wants_a_key(monkeypatch, client, region, host):
    config = MiniMaxChatConfig(model="m", region=region)
    assert config.url == f"https://{host}/v1/chat/completions"
    monkeypatch.delenv("MINIMAX_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="MINIMAX_API_KEY"):
        make_model(config, client)


@pytest.mark.parametrize(
    "sampling", [Sampling(temperature=0.0), Sampling(logprobs=0), Sampling(json_schema={})]
)
def test_what_minimax_has_not_is_refused_before_anything_is_sent(sampling):
    with pytest.raises(ModelRefused, match="nothing was sent: MiniMax takes no"):
        ask_minimax(sampling)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 0}, "takes values above 0"),
        ({"thinking": "disabled", "model": "MiniMax-M2.7"}, "always thinks"),
        ({"extra_body": {"seed": 1}}, "ignores this field"),
    ],
)
def test_settings_of_minimax_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        parse_model_config({"backend": "minimax_chat", "model": "MiniMax-M3", **settings})


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (1002, EndpointFault, "1002"),
        (1039, EndpointFault, "1039"),
        (1004, ModelRefused, "region: cn_zh"),
        (2049, ModelRefused, "MINIMAX_API_KEY"),
        (1008, ModelRefused, "top it up"),
        (2056, ModelRefused, "resets"),
        (1026, RequestRefused, "content policy"),
        (1042, RequestRefused, "Clean the text"),
        (2013, ModelRefused, "Correct the model's settings"),
    ],
)
def test_an_error_inside_a_success_is_typed_by_its_code(code, kind, words):
    config = MiniMaxChatConfig(model="MiniMax-M3")
    body = {"choices": None, "base_resp": {"status_code": code, "status_msg": "no"}}
    error = MiniMaxChat(config).fault(HttpReply(config.url, 200, {}, body), "sk-secret")
    assert type(error) is kind
    assert words in str(error)


def test_thoughts_are_read_and_go_back_with_the_answer():
    dialect = MiniMaxChat(MiniMaxChatConfig(model="MiniMax-M3"))
    details = [{"type": "reasoning.text", "text": "hm"}]
    payload = completion("yes", reasoning_details=details) | {"base_resp": {"status_code": 0}}
    assert dialect.fault(HttpReply(dialect.url, 200, {}, payload), "") is None
    answer = dialect.completion(payload, {})
    assert (answer.text, answer.reasoning) == ("yes", "hm")
    sent = dialect.request([answer.message()], (), Sampling())["messages"]
    assert sent == [{"role": "assistant", "content": "yes", "reasoning_details": details}]


def test_a_withheld_answer_is_told_from_an_empty_one():
    dialect = MiniMaxChat(MiniMaxChatConfig(model="MiniMax-M3"))
    answer = dialect.completion(completion("") | {"output_sensitive": True}, {})
    assert answer.finish_reason == "content_filter"

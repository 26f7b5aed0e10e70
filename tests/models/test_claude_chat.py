import json

import pytest

from mock_anthropic import MockAnthropic, claude_status, message
from mock_openai import raw, reset, truncated
from skillwright.core import ConfigError, ModelRefused, Purpose, Sampling, ToolCall, Usage
from skillwright.models import ClaudeChatConfig, EndpointFault, Prices, make_model
from skillwright.models.dialects.claude import ClaudeChat, to_completion

HELLO = [{"role": "user", "content": "hello"}]
LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def config(**settings):
    return ClaudeChatConfig(**{"model": "claude-m", "prompt_cache": "off", **settings})


def request(messages=HELLO, sampling=Sampling(), tools=(), **settings):
    return ClaudeChat(config(**settings)).request(messages, tools, sampling)


def said(role, content, **fields):
    return {"role": role, "content": content, **fields}


def text(words, **fields):
    return {"type": "text", "text": words, **fields}


# --- request ---------------------------------------------------------------------------------


def test_a_bare_call_names_the_bound_that_the_api_demands():
    assert request() == {
        "model": "claude-m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [text("hello")]}],
    }


def test_leading_system_messages_become_the_system_field_and_later_ones_words_of_the_user():
    body = request(
        [said("system", "a"), said("system", "b"), *HELLO, said("system", "now"), said("user", "x")]
    )
    assert body["system"] == [text("a\n\nb")]
    assert body["messages"] == [
        {"role": "user", "content": [text("hello"), text("now"), text("x")]}
    ]


def test_turns_of_one_role_are_merged_and_the_first_is_the_users():
    body = request([said("assistant", "hi "), said("assistant", " "), said("user", "go")])
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1]["content"] == [text("hi ")]


@pytest.mark.parametrize(("given", "sent"), [("", "(nothing)"), ("so: \n", "so:")])
def test_no_block_is_empty_and_no_conversation_ends_in_blanks(given, sent):
    body = request([*HELLO, said("assistant", given)])
    assert body["messages"][-1]["content"] == [text(sent)]


def test_tools_and_their_results_are_written_as_blocks():
    call = ToolCall("c1", "look", '{"at": "x"}')
    answer = said("assistant", "", tool_calls=[call.to_dict()])
    result = said("tool", "", tool_call_id="c1")
    body = request([*HELLO, answer, result, said("user", "and?")], tools=[LOOK])
    assert body["tools"] == [
        {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
    ]
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}}
    assert body["messages"][1]["content"] == [use]
    told = {"type": "tool_result", "tool_use_id": "c1", "content": "(nothing)"}
    assert body["messages"][2]["content"] == [told, text("and?")]


@pytest.mark.parametrize("written", ["{bad", "[1]"])
def test_arguments_that_are_no_object_are_kept_in_one(written):
    answer = said("assistant", "", tool_calls=[ToolCall("c", "look", written).to_dict()])
    body = request([*HELLO, answer])
    assert body["messages"][1]["content"][0]["input"] == {"arguments": written}


def test_what_claude_thought_goes_back_unchanged():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s=="},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    ]
    answer = to_completion(message(None, *blocks, stop_reason="tool_use"), config())
    history = [*HELLO, answer.message(), said("tool", "a door", tool_call_id="c1")]
    assert request(history)["messages"][1]["content"] == blocks


def test_sampling_is_sent_and_a_seed_is_not():
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=3, stop=("END",))
    body = request(sampling=sampling)
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
    assert (body["max_tokens"], body["stop_sequences"]) == (7, ["END"])
    assert "seed" not in body


def test_thinking_effort_and_schemas_are_sent():
    body = request(sampling=Sampling(json_schema=SCHEMA), thinking="adaptive", effort="low")
    assert body["thinking"] == {"type": "adaptive"}
    form = {"type": "json_schema", "schema": SCHEMA}
    assert body["output_config"] == {"effort": "low", "format": form}


@pytest.mark.parametrize(("asked", "sent"), [(5000, 5000), (256, 2304), (2049, 3072), (8192, 8192)])
def test_a_bound_that_the_thinking_would_use_up_counts_on_top_of_it(asked, sent):
    body = request(sampling=Sampling(max_tokens=asked), thinking="enabled", thinking_budget=2048)
    assert body["max_tokens"] == sent
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_what_later_calls_repeat_is_marked_for_the_cache():
    mark = {"type": "ephemeral"}
    first = request([said("system", "skill"), *HELLO], prompt_cache="5m", tools=[LOOK])
    assert first["system"] == [text("skill", cache_control=mark)]
    assert "cache_control" not in json.dumps(first["messages"])
    later = request([*HELLO, said("assistant", "hi"), *HELLO], prompt_cache="1h", tools=[LOOK])
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert later["tools"][-1]["cache_control"] == hour
    assert later["messages"][-1]["content"] == [text("hello", cache_control=hour)]


@pytest.mark.parametrize(
    ("sampling", "settings", "words"),
    [
        (Sampling(logprobs=2), {}, "no log-probabilities"),
        (Sampling(stop=("\n",)), {}, "blanks only"),
        (Sampling(temperature=1.5), {}, "from 0 to 1"),
        (Sampling(temperature=0.5), {"model": "claude-opus-5-5"}, "takes no temperature"),
        (Sampling(top_p=0.5), {"api_version": "2026-10-21"}, "takes no temperature"),
    ],
)
def test_what_claude_has_not_is_refused_before_anything_is_sent(sampling, settings, words):
    with pytest.raises(ModelRefused, match=f"nothing was sent: .*{words}"):
        request(sampling=sampling, **settings)


@pytest.mark.parametrize(
    ("key_header", "headers"),
    [("x-api-key", {"x-api-key": "k"}), ("authorization", {"Authorization": "Bearer k"})],
)
def test_headers_carry_the_version_and_one_key(key_header, headers):
    dialect = ClaudeChat(config(key_header=key_header))
    version = {"anthropic-version": "2023-06-01"}
    assert dialect.headers("k") == {**version, **headers}


# --- reply -----------------------------------------------------------------------------------


def read(*content, **fields):
    return to_completion(message(None, *content, **fields), config())


def test_words_thoughts_and_calls_are_kept_apart():
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        text("I "),
        text("look."),
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "é"}},
        {"type": "something_new", "x": 1},
    ]
    answer = read(*blocks, stop_reason="tool_use", model="claude-m-2026")
    assert (answer.text, answer.reasoning, answer.model) == ("I look.", "hm", "claude-m-2026")
    assert answer.tool_calls == (ToolCall("c1", "look", '{"at": "é"}'),)
    assert answer.finish_reason == "tool_calls"
    assert answer.native == {"dialect": "claude_chat", "content": blocks}


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "other"),
        ("new_one", "other"),
    ],
)
def test_every_reason_to_stop_is_mapped(stop, finish):
    assert read(text("x"), stop_reason=stop).finish_reason == finish


def test_a_refusal_without_words_is_an_answer_without_words():
    answer = read(stop_reason="refusal", stop_details={"type": "refusal", "category": "bio"})
    assert (answer.text, answer.finish_reason) == ("", "content_filter")


def test_cached_tokens_are_counted_into_the_prompt_and_priced_apart():
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 800,
        "cache_creation_input_tokens": 100,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 30},
    }
    prices = Prices(
        input_usd_per_mtok=2,
        output_usd_per_mtok=10,
        cached_input_usd_per_mtok=0.1,
        cache_write_usd_per_mtok=2.5,
    )
    answer = to_completion(message("x", usage=usage), config(prices=prices))
    cost = pytest.approx((100 * 2 + 800 * 0.1 + 100 * 2.5 + 50 * 10) / 1e6)
    assert answer.usage == Usage(
        1, 1000, 50, 800, cost_usd=cost, cache_write_tokens=100, reasoning_tokens=30
    )


@pytest.mark.parametrize("payload", [None, [], {}, {"content": None}, {"choices": [{}]}])
def test_what_is_no_message_is_a_fault_of_the_endpoint(payload):
    with pytest.raises(EndpointFault, match="without a message for model 'claude-m'"):
        to_completion(payload, config())


# --- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.minimax.io/anthropic/", "https://api.minimax.io/anthropic/v1/messages"),
        ("http://localhost:1/v1", "http://localhost:1/v1/messages"),
    ],
)
def test_the_route_is_added_to_the_base_url(base_url, url):
    assert config(base_url=base_url).url == url


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 1.2}, "Claude takes 0 to 1"),
        ({"temperature": 0.5, "api_version": "2026-10-21"}, "leave them out"),
        ({"top_p": 0.5, "model": "claude-fable-5-1"}, "leave them out"),
        ({"thinking": "enabled"}, "belong together"),
        ({"thinking_budget": 2000}, "belong together"),
        (
            {"thinking": "enabled", "thinking_budget": 2000, "temperature": 0.0},
            "must be 1 or unset",
        ),
        ({"extra_body": {"seed": 1}}, "'seed': Anthropic's messages have no such field"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        config(**settings)


# --- over HTTP -------------------------------------------------------------------------------


@pytest.fixture
async def server():
    async with MockAnthropic() as server:
        yield server


@pytest.fixture
def chat(server, client, clock):
    def make(**settings):
        known = {"base_url": server.base_url, "api_key": server.api_key, "prompt_cache": "5m"}
        return make_model(config(**{**known, **settings}), client, sleep=clock.sleep, clock=clock)

    return make


async def test_a_tool_conversation_travels_there_and_back(server, chat):
    async def look(body):
        if len(body["messages"]) > 1:
            return "A door."
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
        return message(None, thought, use, stop_reason="tool_use")

    server.handler = look
    model = chat()
    first = await model.complete(HELLO, tools=[LOOK], purpose=Purpose.ROLLOUT)
    result = said("tool", "a door", tool_call_id=first.tool_calls[0].id)
    history = [said("system", "skill"), *HELLO, first.message(), result]
    second = await model.complete(history, tools=[LOOK], purpose=Purpose.ROLLOUT)
    assert second.text == "A door."
    assert server.headers[0]["x-api-key"] == "sk-mock"
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_the_same_whole_or_in_pieces(server, chat, stream):
    async def answer(body):
        return message(
            "So: é.",
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
            stop_reason="tool_use",
        )

    server.handler = answer
    got = await chat(stream=stream).complete(HELLO, purpose=Purpose.CHECK)
    assert got == to_completion(await answer({}), config())


@pytest.mark.parametrize(
    "fault",
    [
        claude_status(429, headers={"retry-after": "1"}),
        claude_status(500),
        claude_status(529),
        reset(),
        truncated(),
        raw(b'{"type": "message"'),
        raw(b"{}"),
        raw(
            b'data: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
            "text/event-stream",
        ),
        raw(b'data: {"type": "message_start", "message": {}}\n\n', "text/event-stream"),
    ],
)
async def test_a_passing_fault_is_tried_again(server, chat, clock, fault):
    server.next(fault)
    answer = await chat().complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls) == ("ok", 1)
    assert len(clock.waits) == 1


async def test_a_refused_key_is_named_by_its_variable_and_never_shown(monkeypatch, server, chat):
    monkeypatch.setenv("MY_KEY", "sk-wrong-secret")
    with pytest.raises(ModelRefused, match="MY_KEY") as caught:
        await chat(api_key=None, api_key_env="MY_KEY").complete(HELLO, purpose=Purpose.CHECK)
    assert "sk-wrong-secret" not in str(caught.value)
    assert "invalid x-api-key: ***" in str(caught.value)


def test_anthropic_without_a_key_is_refused_before_any_request(monkeypatch, client):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match="MY_KEY"):
        make_model(config(api_key_env="MY_KEY"), client)

import pytest

from mock_openai import raw, status
from mock_responses import MockResponses, response, say
from skillwright.core import ModelRefused, Purpose, RequestRefused, Sampling, ToolCall, Usage
from skillwright.models import EndpointFault, OpenAIChatConfig, make_model
from skillwright.models.dialects.openai_responses import OpenAIResponses

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CONFIG = OpenAIChatConfig(model="m", transport="responses")
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "xxx",
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "c1",
    "name": "look",
    "arguments": "{}",
    "status": "completed",
}


def request(messages=HELLO, sampling=Sampling(), tools=(), **settings):
    return OpenAIResponses(CONFIG.model_copy(update=settings)).request(messages, tools, sampling)


def read(*output, **fields):
    return OpenAIResponses(CONFIG).completion(response(*output, **fields), {})


def test_a_bare_call_keeps_nothing_at_openai_and_asks_for_its_thoughts():
    assert request() == {
        "model": "m",
        "input": HELLO,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_settings_have_the_names_of_this_route():
    sampling = Sampling(temperature=0.5, max_tokens=9, seed=3, logprobs=2, json_schema={"a": 1})
    body = request(sampling=sampling, tools=[TOOL], reasoning_effort="low")
    assert (body["temperature"], body["max_output_tokens"], body["top_logprobs"]) == (0.5, 9, 2)
    assert body["reasoning"] == {"effort": "low"}
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    assert body["tools"] == [tool]
    form = {"type": "json_schema", "name": "reply", "schema": {"a": 1}, "strict": True}
    assert body["text"] == {"format": form}
    assert "message.output_text.logprobs" in body["include"]
    assert "seed" not in body


def test_stop_texts_are_refused_before_anything_is_sent():
    with pytest.raises(ModelRefused, match=r"nothing was sent: .*no stop texts"):
        request(sampling=Sampling(stop=("x",)))


def test_calls_of_another_dialect_are_written_as_items():
    answer = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [ToolCall("c1", "look", "{}").to_dict()],
    }
    result = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
    assert request([*HELLO, answer, result])["input"] == [
        *HELLO,
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a door"},
    ]


def test_an_answer_is_read_with_its_thoughts_calls_and_usage():
    answer = read(THOUGHT, say("I look."), CALL)
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("I look.", "hm", "tool_calls")
    assert answer.tool_calls == (ToolCall("c1", "look", "{}"),)
    assert answer.usage == Usage(1, 10, 5, 4, cost_usd=None, reasoning_tokens=3)
    assert request([answer.message()])["input"] == [THOUGHT, say("I look."), CALL]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "other")],
)
def test_an_answer_that_broke_off_says_why(reason, finish):
    answer = read(say("x"), status="incomplete", incomplete_details={"reason": reason})
    assert answer.finish_reason == finish


def test_a_budget_that_went_into_thoughts_is_a_cut_and_not_an_empty_answer():
    answer = read(status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert (answer.text, answer.finish_reason) == ("", "length")


def test_a_refusal_becomes_the_text():
    part = {"type": "refusal", "refusal": "No."}
    answer = read({**say(""), "content": [part]})
    assert (answer.text, answer.finish_reason) == ("No.", "content_filter")


def test_what_holds_no_output_is_a_fault_of_the_endpoint():
    with pytest.raises(EndpointFault, match="most other servers want transport: chat_completions"):
        OpenAIResponses(CONFIG).completion({"choices": []}, {})


@pytest.fixture
async def server():
    async with MockResponses() as server:
        yield server


@pytest.fixture
def chat(server, client, clock):
    known = {"model": "m", "base_url": server.base_url, "api_key": server.api_key}
    config = OpenAIChatConfig(**known, transport="responses")
    return make_model(config, client, sleep=clock.sleep, clock=clock)


async def test_a_tool_conversation_travels_there_and_back(server, chat):
    async def look(body):
        return response(THOUGHT, CALL) if len(body["input"]) == 1 else "A door."

    server.handler = look
    first = await chat.complete(HELLO, tools=[TOOL], purpose=Purpose.ROLLOUT)
    result = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
    history = [*HELLO, first.message(), result]
    second = await chat.complete(history, tools=[TOOL], purpose=Purpose.ROLLOUT)
    assert second.text == "A door."
    assert server.bodies[1]["input"][1] == THOUGHT


@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        raw(b'{"status": "failed", "error": {"code": "server_error", "message": "oops"}}'),
        raw(b'{"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "x"}}'),
        raw(b"{}"),
    ],
)
async def test_a_passing_fault_is_tried_again(server, chat, fault):
    server.next(fault)
    answer = await chat.complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls) == ("ok", 1)


async def test_a_blocked_prompt_is_refused_alone(server, chat):
    server.next(raw(b'{"error": {"code": "invalid_prompt", "message": "blocked"}}'))
    with pytest.raises(RequestRefused, match="content policy"):
        await chat.complete(HELLO, purpose=Purpose.CHECK)

"""The vendors' own clients judge our mock servers: what they accept and raise is the protocol."""

import importlib

import pytest
from pydantic import TypeAdapter

from mock_anthropic import MockAnthropic, claude_status, message
from mock_openai import completion, status
from mock_responses import MockResponses, response, say
from skillwright.core import Sampling
from skillwright.models import dialect_of, parse_model_config

openai = pytest.importorskip("openai", reason="the official client is not installed")
anthropic = pytest.importorskip("anthropic", reason="the official client is not installed")

HELLO = [{"role": "user", "content": "hello"}]
PARAMETERS = {"type": "object", "properties": {}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
async def openai_client(mock_openai):
    async with openai.AsyncOpenAI(
        base_url=mock_openai.base_url, api_key=mock_openai.api_key, max_retries=0
    ) as client:
        yield client


async def test_openai_reads_our_chat_completions(mock_openai, openai_client):
    async def answer(body):
        usage = {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
        return completion("hi", tool_calls=[CALL], finish_reason="tool_calls", usage=usage)

    mock_openai.handler = answer
    got = await openai_client.chat.completions.create(model="m", messages=HELLO, tools=[TOOL])
    got = type(got).model_validate(got.model_dump(), strict=True)
    assert (got.choices[0].message.content, got.choices[0].finish_reason) == ("hi", "tool_calls")
    assert got.choices[0].message.tool_calls[0].function.name == "look"
    assert got.usage.prompt_tokens_details.cached_tokens == 4


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
async def test_openai_knows_our_errors(mock_openai, openai_client, code, error):
    mock_openai.next(status(code, "why", code="some_code", param="model"))
    with pytest.raises(getattr(openai, error)) as caught:
        await openai_client.chat.completions.create(model="m", messages=HELLO)
    assert (caught.value.code, caught.value.param) == ("some_code", "model")
    assert "why" in caught.value.message


async def test_openai_reads_our_responses():
    thought = {"id": "rs_1", "type": "reasoning", "summary": []}
    call = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look"}
    items = (thought, say("hi"), {**call, "arguments": "{}", "status": "completed"})

    async def answer(body):
        return response(*items)

    async with (
        MockResponses(answer) as server,
        openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key) as client,
    ):
        got = await client.responses.create(model="m", input=HELLO)
    got = type(got).model_validate(got.model_dump(), strict=True)
    assert (got.output_text, got.output[2].call_id) == ("hi", "c1")
    assert got.usage.output_tokens_details.reasoning_tokens == 3


@pytest.fixture
async def server():
    async with MockAnthropic() as server:
        yield server


@pytest.fixture
async def anthropic_client(server):
    async with anthropic.AsyncAnthropic(
        base_url=server.base_url, api_key=server.api_key, max_retries=0
    ) as client:
        yield client


def thinks_and_looks():
    return message(
        "I look.",
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
        stop_reason="tool_use",
    )


async def test_anthropic_reads_our_messages_whole_and_in_pieces(server, anthropic_client):
    async def answer(body):
        return thinks_and_looks()

    server.handler = answer
    settings = {"model": "m", "max_tokens": 9, "messages": HELLO}
    tools = [{"name": "look", "input_schema": PARAMETERS}]
    whole = await anthropic_client.messages.create(**settings, tools=tools)
    async with anthropic_client.messages.stream(**settings, tools=tools) as stream:
        joined = await stream.get_final_message()
    for got in (whole, joined):
        kept = type(got).model_validate(got.model_dump(), strict=True)
        assert [block.type for block in kept.content] == ["thinking", "tool_use", "text"]
        assert (kept.content[1].input, kept.content[0].signature) == ({"at": "x"}, "s")
        assert (kept.stop_reason, kept.usage.output_tokens) == ("tool_use", 2)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (529, "InternalServerError"),
    ],
)
async def test_anthropic_knows_our_errors(server, anthropic_client, code, error):
    server.next(claude_status(code, "why"))
    with pytest.raises(getattr(anthropic, error), match="why") as caught:
        await anthropic_client.messages.create(model="m", max_tokens=9, messages=HELLO)
    assert (caught.value.status_code, caught.value.request_id) == (code, "req_1")


CHAT = "openai.types.chat.completion_create_params.CompletionCreateParams"
RESPONSES = "openai.types.responses.response_create_params.ResponseCreateParams"
MESSAGES = "anthropic.types.message_create_params.MessageCreateParams"
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
FULL = Sampling(0.5, 0.9, 100, 3, ("END",), logprobs=2, json_schema=CLOSED)


@pytest.mark.parametrize(
    ("settings", "sampling", "form"),
    [
        ({"backend": "openai_chat", "reasoning_effort": "low"}, FULL, f"{CHAT}NonStreaming"),
        ({"backend": "openai_chat", "stream": True}, FULL, f"{CHAT}Streaming"),
        (
            {"backend": "openai_chat", "transport": "responses", "reasoning_effort": "low"},
            Sampling(0.5, 0.9, 100, 3, logprobs=2, json_schema=CLOSED),
            f"{RESPONSES}NonStreaming",
        ),
        (
            # The types are those of the version that takes no sampling settings any more.
            {"backend": "claude_chat", "thinking": "enabled", "thinking_budget": 2000},
            Sampling(max_tokens=100, stop=("END",), json_schema=CLOSED),
            f"{MESSAGES}NonStreaming",
        ),
        (
            {"backend": "claude_chat", "thinking": "adaptive", "effort": "low", "stream": True},
            Sampling(),
            f"{MESSAGES}Streaming",
        ),
    ],
)
def test_our_requests_have_the_form_that_the_clients_know(settings, sampling, form):
    module, _, name = form.rpartition(".")
    known = getattr(importlib.import_module(module), name)
    call = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
    messages = [{"role": "system", "content": "s"}, *HELLO, call, result]
    dialect = dialect_of(parse_model_config({"model": "m", **settings}))
    request = dialect.request(messages, [TOOL], sampling)
    assert request.keys() <= known.__required_keys__ | known.__optional_keys__
    adapter = TypeAdapter(known)
    told = adapter.validate_python(request)
    for name in told.keys() & {"messages", "tools", "input", "system"}:
        list(told[name])  # checked when they are walked through, by the adapter that lives on

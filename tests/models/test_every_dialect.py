"""What holds for every dialect alike: the same faults, the same types, no key anywhere."""

import asyncio
import traceback

import pytest

import mock_anthropic
import mock_openai
import mock_responses
from mock_anthropic import MockAnthropic
from mock_endpoint import trickle
from mock_openai import MockOpenAI, hold, raw, reset, status, truncated
from mock_responses import MockResponses
from skillwright.core import (
    Completion,
    ConfigError,
    ModelError,
    ModelRefused,
    ModelTimeout,
    Purpose,
    ReplyInvalid,
    Sampling,
)
from skillwright.jobs.preflight import ask_if_ready
from skillwright.models import (
    ContextOverflow,
    HttpClient,
    make_model,
    parse_model_config,
)

HELLO = [{"role": "user", "content": "hello"}]
KEY = "sk-canary-4711"
DIALECTS = {
    "openai_chat": (MockOpenAI, {"backend": "openai_chat"}),
    "vllm": (MockOpenAI, {"backend": "openai_chat", "server": "vllm"}),
    "responses": (MockResponses, {"backend": "openai_chat", "transport": "responses"}),
    "claude_chat": (MockAnthropic, {"backend": "claude_chat"}),
    "qwen_chat": (MockOpenAI, {"backend": "qwen_chat"}),
    "minimax_chat": (MockOpenAI, {"backend": "minimax_chat"}),
}


@pytest.fixture(params=DIALECTS)
async def spoken(request):
    """A server and the settings of a model on it."""
    kind, settings = DIALECTS[request.param]
    async with kind(api_key=KEY) as server:
        yield server, {"model": "m", "base_url": server.base_url, "api_key": KEY, **settings}


@pytest.fixture
def make(spoken, client, clock):
    def make(client=client, **settings):
        config = parse_model_config({**spoken[1], **settings})
        return make_model(config, client, sleep=clock.sleep, clock=clock)

    return make


async def test_an_answer_comes_with_its_text_name_and_usage(spoken, make):
    answer = await make().complete(
        HELLO, sampling=Sampling(temperature=0.5, max_tokens=9, seed=3), purpose=Purpose.CHECK
    )
    assert (answer.text, answer.finish_reason, answer.model) == ("ok", "stop", "m")
    assert answer.usage.input_tokens == 10
    assert answer.usage.output_tokens > 0


class Parrot:
    identity = "parrot"

    async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
        return Completion(" | ".join(one["content"] for one in messages), "length")


@pytest.mark.parametrize("minds", [Parrot(), {"m": Parrot()}])
async def test_a_mind_behind_http_hears_and_says_what_it_does_without(spoken, make, minds):
    server, _ = spoken
    kinds = {MockAnthropic: mock_anthropic, MockResponses: mock_responses}
    server.handler = kinds.get(type(server), mock_openai).answer_with(minds)
    talk = [
        {"role": "system", "content": "skill"},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "I see é"},
        {"role": "user", "content": "go"},
    ]
    answer = await make().complete(talk, purpose=Purpose.ROLLOUT)
    assert (answer.text, answer.finish_reason) == ("skill | look | I see é | go", "length")


async def test_the_question_of_the_doctor_is_answered(spoken, client):
    assert await ask_if_ready(parse_model_config(spoken[1]), client) == "m"


@pytest.mark.parametrize(
    "fault",
    [
        status(429, retry_after="1"),
        status(500),
        status(503),
        status(529),
        reset(),
        truncated(),
        raw(b'{"id": "x", '),
        raw(b""),
        raw(b"{}"),
        raw(b"null"),
        raw(b"[]"),
        raw(b'{"error": {"message": "overloaded", "code": 503, "type": "overloaded_error"}}'),
    ],
)
async def test_a_passing_fault_is_tried_again(spoken, make, clock, fault):
    server, _ = spoken
    server.next(fault)
    answer = await make().complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls) == ("ok", 1)
    assert len(clock.waits) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (status(400, "bad"), ModelRefused, "settings"),
        (status(400, "maximum context length is 9"), ContextOverflow, "Shorten"),
        (status(401, "no"), ModelRefused, "Check the key"),
        (status(402, "pay"), ModelRefused, "another key"),
        (status(404, "no such model"), ModelRefused, "model name 'm'"),
        (status(413, "large"), ModelRefused, "shorten"),
        (raw(b"<html>", "text/html"), ModelRefused, "web page"),
    ],
)
async def test_what_asking_again_cannot_cure_is_asked_once(spoken, make, clock, fault, kind, words):
    server, _ = spoken
    server.next(fault)
    with pytest.raises(kind, match=words):
        await make().complete(HELLO, purpose=Purpose.CHECK)
    assert (len(server.bodies), clock.waits) == (1, [])


async def test_an_endless_reply_is_bounded_in_length_and_in_time(spoken, make):
    server, _ = spoken
    server.next(trickle(), trickle())
    async with HttpClient(max_reply_bytes=100) as small:
        with pytest.raises(ReplyInvalid, match="more than 100 bytes"):
            await make(small).complete(HELLO, purpose=Purpose.CHECK)
    with pytest.raises(ModelTimeout, match="Raise timeout_s"):
        await make(timeout_s=0.05, max_attempts=1).complete(HELLO, purpose=Purpose.CHECK)


async def test_a_silent_server_is_given_up(spoken, make):
    server, _ = spoken
    server.next(hold(asyncio.Event()))
    with pytest.raises(ModelTimeout):
        await make(timeout_s=0.05, max_attempts=1).complete(HELLO, purpose=Purpose.CHECK)


async def test_a_key_is_nowhere_but_in_its_header(spoken, make):
    server, settings = spoken
    echo = f'{{"error": {{"message": "bad key {KEY}", "code": 401}}}}'.encode()
    server.next(raw(echo, status_code=401))
    model = make()
    with pytest.raises(ModelError, match=r"bad key \*\*\*") as caught:
        await model.complete(HELLO, purpose=Purpose.CHECK)
    config = parse_model_config(settings)
    shown = [traceback.format_exception(caught.value), model, model.identity, config]
    assert KEY not in f"{shown} {config.model_dump_json()} {server.bodies}"
    assert KEY in str(dict(server.headers[0]))


async def test_roles_are_instances_with_their_own_settings(spoken, make):
    server, _ = spoken
    first, second = make(temperature=0.3), make(temperature=0.9, model="other")
    await first.complete(HELLO, purpose=Purpose.CHECK)
    await second.complete(HELLO, purpose=Purpose.JUDGE)
    sent = [(body["model"], body["temperature"]) for body in server.bodies]
    assert sent == [("m", 0.3), ("other", 0.9)]
    assert first.identity != second.identity


def test_an_unknown_key_is_refused_with_the_nearest_right_name(spoken):
    with pytest.raises(ConfigError, match="Did you mean 'max_attempts'"):
        parse_model_config({**spoken[1], "max_atempts": 2})


def test_settings_survive_a_round_trip(spoken):
    config = parse_model_config(spoken[1])
    again = parse_model_config(config.model_dump(mode="json"))
    assert again == config.model_copy(update={"api_key": None})

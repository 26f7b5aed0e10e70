"""What holds for every dialect alike: the same faults, the same types, no key anywhere."""

import asyncio
import json
import traceback
from urllib.parse import quote

import pytest
from aiohttp import web

import mock_anthropic
import mock_openai
import mock_responses
from mock_anthropic import MockAnthropic
from mock_endpoint import trickle
from mock_openai import MockOpenAI, completion, hold, raw, reset, status, truncated
from mock_openai import replies as mock_openai_replies
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
    Usage,
)
from skillwright.jobs.text.launch.preflight import ask_if_ready
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


@pytest.mark.parametrize("llms", [Parrot(), {"m": Parrot()}])
async def test_a_model_behind_http_hears_and_says_what_it_does_without(spoken, make, llms):
    server, _ = spoken
    kinds = {MockAnthropic: mock_anthropic, MockResponses: mock_responses}
    server.handler = kinds.get(type(server), mock_openai).answer_with(llms)
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
    ("fault", "times", "asked"),
    [
        (status(429, retry_after="5"), 5, 6),
        (status(429), 99, None),  # 2 of its own, and as many as a call of a run may make
        (status(500), 5, None),
        (status(503), 5, None),
        (reset(), 5, None),
    ],
)
async def test_a_rate_limit_is_waited_for_before_a_run_as_in_it_and_nothing_else_is(
    spoken, client, clock, fault, times, asked
):
    server, settings = spoken
    server.next(*[fault] * times)

    def patient(llm, client):
        return make_model(llm, client, sleep=clock.sleep, clock=clock)

    ready = ask_if_ready(parse_model_config({**settings, "max_attempts": 6}), client, patient)
    if asked is not None:
        assert await ready == "m"
        assert len(server.bodies) == asked
        assert clock.now >= 5
        return
    with pytest.raises(ModelError):
        await ready
    assert len(server.bodies) == (8 if times == 99 else 2)


@pytest.mark.parametrize(("configured", "sent"), [(None, 256), (100, 100), (5_000, 256)])
async def test_the_question_of_the_doctor_keeps_within_the_configured_bound(
    spoken, client, configured, sent
):
    server, settings = spoken
    bound = {} if configured is None else {"max_tokens": configured}
    await ask_if_ready(parse_model_config({**settings, **bound}), client)
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    assert [server.bodies[0][name] for name in names if name in server.bodies[0]] == [sent]


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


ECHO = "sk-canary-4711/with+signs"


def with_header(name, code=400):
    async def fault(request):
        return web.json_response({}, status=code, headers={name: f"id {ECHO}"})

    return fault


def told(payload, code=200):
    return raw(json.dumps(payload).encode(), status_code=code)


ECHOES = {
    "message": status(400, f"bad key {ECHO}"),
    "param": status(400, "no", param=ECHO),
    "code": status(400, "no", code=ECHO),
    "kind": status(400, "no", kind=ECHO),
    "a request id": with_header("x-request-id"),
    "another request id": with_header("request-id"),
    "a redirection": with_header("location", 302),
    "a choice's error": told({"choices": [{"error": {"message": f"bad {ECHO}"}}]}),
    "a choice's end": told({"choices": [{"finish_reason": ECHO, "message": {"content": ""}}]}),
    "Claude's end": told({"content": [], "stop_reason": ECHO}),
    "the names of fields": told({ECHO: 1}),
    "MiniMax's status": told({"base_resp": {"status_code": 2013, "status_msg": f"bad {ECHO}"}}),
    "a detail": told({"detail": f"bad {ECHO}"}, 422),
    "no JSON": raw(f"bad key {ECHO}".encode()),
    "no JSON, cut in the key": raw(("x" * 70 + ECHO).encode()),
    "no JSON, in an error": raw(f"bad key {ECHO}".encode(), "text/plain", 403),
    "escaped": raw(b'{"error": "bad ' + ECHO.replace("/", "\\/").encode() + b'"}', status_code=400),
    "in a URL": status(400, f"bad ?key={quote(ECHO, '')}"),
}


@pytest.mark.parametrize("echo", ECHOES)
async def test_a_key_that_is_repeated_anywhere_is_hidden(spoken, make, echo):
    server, settings = spoken
    server.next(*[ECHOES[echo]] * 2)
    with pytest.raises(ModelError) as caught:
        await make(api_key=ECHO, max_attempts=2).complete(HELLO, purpose=Purpose.CHECK)
    shown = "".join(traceback.format_exception(caught.value))
    assert ECHO[:10] not in shown
    assert settings["model"] in shown or server.base_url in shown


async def test_a_key_in_the_place_of_the_model_is_hidden(mock_openai, make_chat):
    mock_openai.handler = mock_openai_replies(completion("ok", model=f"m {mock_openai.api_key}"))
    answer = await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.model) == ("ok", "m ***")


BEYOND = [2_000_000, 10**12, 2**70, 1e15]


def used(read, wrote):
    """Return counts under the names of every dialect."""
    chat = {"prompt_tokens": read, "completion_tokens": wrote}
    return {**chat, "input_tokens": read, "output_tokens": wrote}


def payload_of(server, counts):
    match server:
        case MockAnthropic():
            return {**mock_anthropic.message("ok"), "usage": counts}
        case MockResponses():
            return {**mock_responses.response(mock_responses.say("ok")), "usage": counts}
        case _:
            return completion("ok", usage=counts)


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("counts", [lambda n: used(n, 5), lambda n: used(10, n)])
async def test_counts_that_cannot_be_are_left_out_and_said_once(
    spoken, make, caplog, number, counts
):
    server, _ = spoken
    server.next(*[told(payload_of(server, counts(number)))] * 2)
    prices = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 10}
    model = make(prices=prices)
    answers = [await model.complete(HELLO, purpose=Purpose.CHECK) for _ in range(2)]
    for answer in answers:
        assert answer.text == "ok"
        assert answer.usage == Usage(calls=1, cost_usd=None)
    assert caplog.text.count("cannot be") == 1


async def test_a_fault_charges_no_count_that_cannot_be(spoken, make):
    server, _ = spoken
    broken = {"error": {"message": "no", "code": 500}, "choices": [], "usage": used(10**12, 5)}
    server.next(told(broken))
    answer = await make().complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.text, answer.usage.failed_calls) == ("ok", 1)
    assert answer.usage.input_tokens < 1_000


async def test_large_counts_are_believed(spoken, make):
    server, _ = spoken
    server.next(told(payload_of(server, used(900_000, 128_000))))
    answer = await make().complete(HELLO, purpose=Purpose.CHECK)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (900_000, 128_000)


@pytest.mark.parametrize("value", [None, "", " "])
async def test_a_variable_that_is_named_and_not_set_is_refused_at_any_address(
    spoken, make, monkeypatch, value
):
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ConfigError, match=r"MY_KEY \(api_key_env\), which is not set: set it, or"):
        make(api_key=None, api_key_env="MY_KEY")
    given = parse_model_config({**spoken[1], "api_key": None})
    resumed = parse_model_config(given.model_dump(mode="json"))
    monkeypatch.delenv(resumed.api_key_env, raising=False)
    with pytest.raises(ConfigError, match="which is not set: set it, or"):
        make(api_key=None, api_key_env=resumed.api_key_env)
    assert "api_key_env" not in resumed.model_fields_set  # nobody named the usual one
    make(api_key=None)


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

import asyncio
import traceback

import pytest

from mock_openai import answer_with, empty_choices, hold, raw, reset, status, truncated
from skillwright.core import (
    Completion,
    ConfigError,
    ModelRefused,
    ModelTimeout,
    Purpose,
    Sampling,
    Usage,
)
from skillwright.models import (
    ContextOverflow,
    EndpointFault,
    HttpClient,
    OpenAIChatConfig,
    make_model,
)
from skillwright.models.dialects.openai_chat import OpenAIChat
from skillwright.models.http.endpoint import identity_of

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CONFIG = OpenAIChatConfig(model="m", base_url="http://localhost:8000/v1")


def request(config=CONFIG, sampling=Sampling(), tools=()):
    return OpenAIChat(config).request(HELLO, tools, sampling)


# --- request ---------------------------------------------------------------------------------


def test_a_bare_call_sends_only_model_and_messages():
    assert request() == {"model": "m", "messages": HELLO}


def test_sampling_comes_before_the_settings():
    config = CONFIG.model_copy(update={"temperature": 0.7, "max_tokens": 100, "top_p": 0.9})
    sampling = Sampling(temperature=0.0, max_tokens=50, seed=7, stop=("\n",))
    body = request(config, sampling, tools=[TOOL])
    assert body["temperature"] == 0.0
    assert body["max_tokens"] == 50
    assert body["top_p"] == 0.9
    assert (body["seed"], body["stop"], body["tools"]) == (7, ["\n"], [TOOL])


def test_a_seed_is_not_sent_to_an_endpoint_that_refuses_it():
    config = CONFIG.model_copy(update={"send_seed": False})
    assert "seed" not in request(config, Sampling(seed=7))


@pytest.mark.parametrize(
    ("base_url", "chosen", "name"),
    [
        ("https://api.openai.com/v1", "auto", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "auto", "max_completion_tokens"),
        ("http://localhost:8000/v1", "auto", "max_tokens"),
        ("http://localhost:8000/v1", "max_completion_tokens", "max_completion_tokens"),
    ],
)
def test_the_token_bound_goes_by_the_name_that_the_endpoint_knows(base_url, chosen, name):
    config = OpenAIChatConfig(model="m", base_url=base_url, max_tokens_name=chosen, max_tokens=9)
    body = request(config)
    assert body[name] == 9
    assert len([key for key in body if key.startswith("max")]) == 1


def test_reasoning_effort_and_extra_fields_are_sent():
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    config = CONFIG.model_copy(update={"reasoning_effort": "low", "extra_body": extra})
    body = request(config)
    assert body["reasoning_effort"] == "low"
    assert {key: body[key] for key in extra} == extra


# --- identity and keys -----------------------------------------------------------------------


def test_identity_changes_with_what_changes_answers_and_with_nothing_else():
    same = [
        {"api_key": "sk-1"},
        {"timeout_s": 5},
        {"stream": True},
        {"max_concurrent": 2},
        {"max_attempts": 1},
    ]
    other = [{"temperature": 0.1}, {"extra_body": {"top_k": 1}}, {"reasoning_effort": "low"}]
    mine = identity_of(CONFIG)
    assert mine.startswith("openai_chat:m@localhost:8000#")
    settings = CONFIG.model_dump()
    assert {identity_of(OpenAIChatConfig(**{**settings, **each})) for each in same} == {mine}
    assert len({identity_of(OpenAIChatConfig(**{**settings, **each})) for each in other}) == 3
    assert mine not in {identity_of(OpenAIChatConfig(**{**settings, **each})) for each in other}


def test_openai_without_a_key_is_refused_before_any_request(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match="MY_KEY"):
        make_model(OpenAIChatConfig(model="m", api_key_env="MY_KEY"), HttpClient())


async def test_the_key_is_read_from_the_variable_that_is_named(monkeypatch, mock_openai, make_chat):
    monkeypatch.setenv("MY_KEY", f" {mock_openai.api_key}\n")
    answer = await make_chat(api_key=None, api_key_env="MY_KEY").complete(
        HELLO, purpose=Purpose.CHECK
    )
    assert answer.text == "ok"


async def test_a_local_server_needs_no_key(monkeypatch, mock_openai, make_chat):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    mock_openai.api_key = None
    chat = make_chat(api_key=None)
    assert (await chat.complete(HELLO, purpose=Purpose.CHECK)).text == "ok"
    assert "Authorization" not in mock_openai.headers[0]


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it():
    config = CONFIG.model_copy(
        update={"api_key": OpenAIChatConfig(model="m", api_key="a\nb").api_key}
    )
    with pytest.raises(ConfigError, match="line break") as caught:
        make_model(config, HttpClient())
    assert "a\nb" not in str(caught.value)


# --- over HTTP -------------------------------------------------------------------------------


async def test_a_conversation_travels_to_the_endpoint_and_back(mock_openai, make_chat):
    chat = make_chat(headers={"X-Title": "tests"})
    sampling = Sampling(temperature=0.5, seed=3)
    answer = await chat.complete(HELLO, tools=[TOOL], sampling=sampling, purpose=Purpose.ROLLOUT)
    assert answer == Completion("ok", model="m", usage=Usage(1, 10, 1, cost_usd=None))
    assert mock_openai.bodies == [
        {"model": "m", "messages": HELLO, "temperature": 0.5, "seed": 3, "tools": [TOOL]}
    ]
    assert mock_openai.headers[0]["Authorization"] == "Bearer sk-mock"
    assert mock_openai.headers[0]["X-Title"] == "tests"


async def test_a_model_behind_http_answers_as_it_does_itself(mock_openai, make_chat):
    class Parrot:
        identity = "parrot"

        async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
            return Completion(f"{messages[-1]['content']} {sampling.seed}", "length")

    mock_openai.handler = answer_with({"m": Parrot()})
    answer = await make_chat().complete(HELLO, sampling=Sampling(seed=5), purpose=Purpose.CHECK)
    assert (answer.text, answer.finish_reason) == ("hello 5", "length")


async def test_text_that_no_json_can_carry_is_sent_with_question_marks(mock_openai, make_chat):
    await make_chat().complete(
        [{"role": "user", "content": "half \ud83d 'char' é"}], purpose=Purpose.CHECK
    )
    assert mock_openai.bodies[0]["messages"][0]["content"] == "half ? 'char' é"


@pytest.mark.parametrize(
    "fault",
    [
        status(408),
        status(409),
        status(429, kind="rate_limit_error"),
        status(500),
        status(503),
        status(529),
        reset(),
        truncated(),
        empty_choices(),
        raw(b"{}"),
        raw(b'{"choices": ['),
        raw(b'{"error": {"message": "overloaded", "code": 503}}'),
        raw(b'{"error": "upstream broke"}'),
    ],
)
async def test_a_passing_fault_is_tried_again_and_counted(mock_openai, make_chat, clock, fault):
    mock_openai.next(fault, fault)
    answer = await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    assert answer.text == "ok"
    assert (answer.usage.calls, answer.usage.failed_calls) == (1, 2)
    assert len(mock_openai.bodies) == 3
    assert len(clock.waits) == 2


async def test_the_wait_that_an_endpoint_asks_for_is_kept(mock_openai, make_chat, clock):
    mock_openai.next(status(429, retry_after="7"))
    await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    assert 7 <= clock.waits[0] <= 7.5


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (status(400, "bad", param="temperature"), ModelRefused, ["Change 'temperature'"]),
        (status(403, "no"), ModelRefused, ["api_key", "base_url"]),
        (status(404, "no such model"), ModelRefused, ["model name 'm'", "/v1"]),
        (status(413, "too large"), ModelRefused, ["413"]),
        (status(422, "no"), ModelRefused, ["422"]),
        (status(429, "pay", code="insufficient_quota"), ModelRefused, ["top it up"]),
        (status(400, "x", code="context_length_exceeded"), ContextOverflow, ["Shorten"]),
        (raw(b"<html></html>", "text/html"), ModelRefused, ["web page", "/v1"]),
    ],
)
async def test_what_asking_again_cannot_cure_is_asked_once(
    mock_openai, make_chat, clock, fault, kind, words
):
    mock_openai.next(fault)
    with pytest.raises(kind) as caught:
        await make_chat().complete(HELLO, purpose=Purpose.CHECK)
    assert len(mock_openai.bodies) == 1
    assert clock.waits == []
    assert caught.value.failed_calls == 1
    for word in [*words, mock_openai.base_url]:
        assert word in str(caught.value)


async def test_a_refused_key_is_named_by_its_variable_and_never_shown(
    monkeypatch, mock_openai, make_chat
):
    monkeypatch.setenv("MY_KEY", "sk-wrong-secret")
    chat = make_chat(api_key=None, api_key_env="MY_KEY")
    with pytest.raises(ModelRefused, match="MY_KEY") as caught:
        await chat.complete(HELLO, purpose=Purpose.CHECK)
    assert mock_openai.base_url in str(caught.value)
    told = "".join(traceback.format_exception(caught.value)) + repr(chat) + chat.identity
    assert "sk-wrong-secret" not in told


async def test_an_endpoint_that_never_recovers_is_given_up(mock_openai, make_chat):
    mock_openai.next(*[status(500, "down")] * 3)
    with pytest.raises(EndpointFault, match=r"down.*Gave up after 3 attempts") as caught:
        await make_chat(max_attempts=3).complete(HELLO, purpose=Purpose.CHECK)
    assert caught.value.failed_calls == 3
    assert len(mock_openai.bodies) == 3


async def test_an_attempt_that_takes_too_long_is_cut_and_tried_again(mock_openai, make_chat):
    mock_openai.next(hold(asyncio.Event()))
    answer = await make_chat(timeout_s=0.5).complete(HELLO, purpose=Purpose.CHECK)
    assert answer.usage.failed_calls == 1
    await mock_openai.until(lambda server: server.in_flight == 0)


async def test_a_call_without_any_answer_times_out(mock_openai, make_chat):
    mock_openai.next(hold(asyncio.Event()))
    with pytest.raises(ModelTimeout, match="Raise timeout_s"):
        await make_chat(timeout_s=0.02, max_attempts=1).complete(HELLO, purpose=Purpose.CHECK)


async def test_a_cancelled_call_leaves_no_request_behind(mock_openai, make_chat):
    mock_openai.next(hold(asyncio.Event()))
    chat = make_chat(max_concurrent=1)
    call = asyncio.create_task(chat.complete(HELLO, purpose=Purpose.CHECK))
    await mock_openai.until(lambda server: server.in_flight == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await mock_openai.until(lambda server: server.in_flight == 0)
    assert (await chat.complete(HELLO, purpose=Purpose.CHECK)).text == "ok"


async def test_models_on_one_endpoint_and_key_share_the_smallest_bound(mock_openai, make_chat):
    gate = asyncio.Event()
    mock_openai.next(*[hold(gate)] * 12)
    chats = [make_chat(max_concurrent=5), make_chat(model="other", max_concurrent=3)]
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(chats[i % 2].complete(HELLO, purpose=Purpose.CHECK))
            for i in range(12)
        ]
        await mock_openai.until(lambda server: server.in_flight == 3)
        gate.set()
    assert mock_openai.most_in_flight == 3
    assert [call.result().text for call in calls] == ["ok"] * 12


async def test_waiting_for_a_slot_does_not_use_up_the_deadline(mock_openai, make_chat, clock):
    gate = asyncio.Event()
    mock_openai.next(hold(gate))
    chat = make_chat(max_concurrent=1, timeout_s=50, deadline_s=100)
    async with asyncio.TaskGroup() as group:
        group.create_task(chat.complete(HELLO, purpose=Purpose.CHECK))
        await mock_openai.until(lambda server: server.in_flight == 1)
        queued = group.create_task(chat.complete(HELLO, purpose=Purpose.CHECK))
        await asyncio.sleep(0)
        clock.now += 1000
        gate.set()
    assert queued.result().usage.failed_calls == 0

"""Clients reach an endpoint through `skillwright serve`, and notice nothing but the skills."""

import asyncio
import json

import aiohttp
import anthropic
import httpx
import openai
import pytest
from aiohttp import web

from mock_anthropic import MockAnthropic, claude_status, message
from mock_openai import MockOpenAI, completion, hold, status
from serving import KEY, serve_here

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PIECES = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "go "}}]},
    {"choices": [{"index": 0, "delta": {"content": "on"}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
]


def stream(until=None, *, cut=False):
    """Send the pieces; behind the first, wait for an event, or break off."""

    async def fault(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number, piece in enumerate(PIECES):
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m"}
            await response.write(b"data: " + json.dumps({**chunk, **piece}).encode() + b"\n\n")
            if number == 0 and cut:
                request.transport.close()
                return response
            if number == 0 and until is not None:
                await until.wait()
        await response.write(b"data: [DONE]\n\n")
        return response

    return fault


@pytest.fixture
async def upstream():
    async with MockOpenAI() as server:
        yield server


async def until(claim):
    """Let others run until something is true, for at most 5 seconds."""
    async with asyncio.timeout(5):
        while not claim():  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0)


def openai_at(address, key="sk-mock", **settings):
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0, **settings)


def asked(client, **fields):
    return client.chat.completions.create(model="m", messages=HELLO, **fields)


async def test_openai_gets_the_same_answer_through_the_proxy(upstream):
    async def answer(body):
        return completion("hi", tool_calls=[CALL], finish_reason="tool_calls")

    upstream.handler = answer
    async with (
        serve_here(upstream=upstream.base_url) as (address, _),
        openai_at(address) as near,
        openai_at(upstream.base_url[:-3]) as direct,
    ):
        through, straight = await asked(near, tools=[TOOL]), await asked(direct, tools=[TOOL])
        models = await near.models.list()
    assert through.model_dump() == straight.model_dump()
    assert upstream.bodies[0] == upstream.bodies[1]
    assert [one.id for one in models.data] == ["mock-1"]


async def test_a_stream_comes_piece_by_piece_while_it_is_written(upstream):
    more = asyncio.Event()
    upstream.next(stream(more))
    async with serve_here(upstream=upstream.base_url) as (address, _), openai_at(address) as client:
        pieces = await asked(client, stream=True)
        said = [(await anext(pieces)).choices[0].delta.content]
        more.set()  # the endpoint writes the rest only now
        said += [one.choices[0].delta.content async for one in pieces if one.choices]
    assert said == ["go ", "on"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_anthropic_gets_the_same_answer_through_the_proxy(streamed):
    async def answer(body):
        return message("hi", {"type": "tool_use", "id": "t1", "name": "look", "input": {}})

    async def ask(client):
        fields = {"model": "m", "max_tokens": 9, "messages": HELLO}
        if not streamed:
            return (await client.messages.create(**fields)).model_dump()
        async with client.messages.stream(**fields) as pieces:
            return (await pieces.get_final_message()).model_dump()

    async with (
        MockAnthropic(answer) as server,
        serve_here(upstream=server.base_url) as (address, _),
        anthropic.AsyncAnthropic(base_url=address, api_key=server.api_key) as near,
        anthropic.AsyncAnthropic(base_url=server.base_url, api_key=server.api_key) as direct,
    ):
        assert await ask(near) == await ask(direct)
        assert server.bodies[0] == server.bodies[1]


@pytest.mark.parametrize("code", [400, 401, 404, 429, 500])
async def test_errors_of_the_endpoint_reach_the_client_as_they_are(upstream, code):
    upstream.next(status(code, "why", code="some_code", retry_after="7"))
    async with serve_here(upstream=upstream.base_url) as (address, _), openai_at(address) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await asked(client)
    assert (caught.value.status_code, caught.value.code) == (code, "some_code")
    assert caught.value.response.headers["retry-after"] == "7"


async def test_anthropic_knows_the_errors_of_the_endpoint_and_those_of_the_proxy():
    async with (
        MockAnthropic() as server,
        serve_here(upstream=server.base_url, upstream_key=server.api_key) as (address, _),
        anthropic.AsyncAnthropic(base_url=address, api_key=KEY, max_retries=0) as client,
        anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=0) as stranger,
    ):
        server.next(claude_status(529, "busy"))
        with pytest.raises(anthropic.InternalServerError, match="busy"):
            await client.messages.create(model="m", max_tokens=9, messages=HELLO)
        with pytest.raises(anthropic.AuthenticationError, match="the key is wrong"):
            await stranger.messages.create(model="m", max_tokens=9, messages=HELLO)
        await client.messages.create(model="m", max_tokens=9, messages=HELLO)
    sent = " ".join(server.headers[-1].values())
    assert server.api_key in sent
    assert KEY not in sent


async def test_the_endpoints_key_is_sent_in_the_place_of_ours(upstream):
    own = {"upstream": upstream.base_url, "upstream_key": "sk-mock"}
    async with serve_here(**own) as (address, _), openai_at(address, KEY) as client:
        await asked(client)
    assert upstream.headers[0]["Authorization"] == "Bearer sk-mock"


async def test_an_endpoint_that_is_down_is_a_502_that_says_so(upstream):
    gone = "http://127.0.0.1:9/v1"
    async with serve_here(upstream=gone) as (address, _), openai_at(address) as client:
        with pytest.raises(openai.InternalServerError, match="refused the connection") as caught:
            await asked(client)
    assert caught.value.status_code == 502


async def test_an_endpoint_that_sends_nothing_is_a_504(upstream):
    never = asyncio.Event()
    upstream.next(hold(never))
    settings = {"upstream": upstream.base_url, "silent_s": 0.05}
    async with serve_here(**settings) as (address, _), openai_at(address) as client:
        with pytest.raises(openai.InternalServerError, match=r"sent nothing for 0.05 s") as caught:
            await asked(client)
    assert caught.value.status_code == 504
    await upstream.until(lambda one: one.in_flight == 0)


async def test_a_stream_that_is_cut_does_not_look_like_a_whole_one(upstream):
    upstream.next(stream(cut=True))
    async with serve_here(upstream=upstream.base_url) as (address, _), openai_at(address) as client:
        pieces = await asked(client, stream=True)
        with pytest.raises((openai.APIError, httpx.TransportError)):
            _ = [one async for one in pieces]


async def test_a_client_that_leaves_takes_its_request_from_the_endpoint(upstream):
    never = asyncio.Event()
    upstream.next(hold(never))
    settings = {"upstream": upstream.base_url, "in_flight": 1}
    async with serve_here(**settings) as (address, served), openai_at(address) as client:
        leaving = asyncio.create_task(asked(client))
        await upstream.until(lambda one: one.in_flight == 1)
        leaving.cancel()
        await upstream.until(lambda one: one.in_flight == 0)
        await asked(client)  # the only slot is free again
        assert served.front.slots.in_flight == 0


async def test_more_requests_than_may_wait_are_sent_away_with_a_time_to_come_back(upstream):
    free = asyncio.Event()
    upstream.next(hold(free))
    settings = {"upstream": upstream.base_url, "in_flight": 1}
    async with serve_here(**settings) as (address, served), openai_at(address) as client:
        waiting = [asyncio.create_task(asked(client)) for _ in range(5)]
        await until(lambda: served.front.slots.waiting == 4)
        with pytest.raises(openai.RateLimitError, match="4 wait") as caught:
            await asked(client)
        assert caught.value.response.headers["retry-after"] == "1"
        free.set()
        assert len([await one for one in waiting]) == 5
    assert upstream.most_in_flight == 1


async def raw(address, head, body=b""):
    """Send bytes, and return the status of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(head.encode() + b"\r\n\r\n" + body)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1", 401),
        ("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nx-api-key: k", 403),
        ("GET @evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: k", 400),
        ("GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nx-api-key: k", 404),
        ("GET /other HTTP/1.1\r\nHost: localhost\r\nx-api-key: k", 404),
        (
            "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\n"
            "Content-Length: 10000000",
            413,
        ),
        ("no HTTP at all", 400),
    ],
)
async def test_what_is_refused_never_reaches_the_endpoint(upstream, head, code):
    async with serve_here(upstream=upstream.base_url) as (address, _):
        assert await raw(address, head) == code
    assert not upstream.headers


async def test_ten_megabytes_are_refused_whether_their_length_is_said_or_not(upstream):
    async def pieces():
        for _ in range(100):
            yield b" " * 100_000

    async with serve_here(upstream=upstream.base_url) as (address, _):
        headers = {"Authorization": "Bearer sk-mock"}
        async with aiohttp.ClientSession() as client:
            url = f"{address}/v1/chat/completions"
            async with client.post(url, data=pieces(), headers=headers) as answer:
                assert answer.status == 413
        async with openai_at(address) as client:
            long = [{"role": "user", "content": "x" * 10_000_000}]
            with pytest.raises(openai.APIStatusError, match="8,388,608 bytes") as caught:
                await client.chat.completions.create(model="m", messages=long)
            assert caught.value.status_code == 413
            await asked(client)
    assert len(upstream.bodies) == 1


async def test_what_is_not_understood_is_passed_on_as_it_came(upstream, tmp_path):
    skill = tmp_path / "skill.md"
    skill.write_text("Be brief.", encoding="utf-8")
    settings = {"upstream": upstream.base_url, "skill": str(skill)}
    async with serve_here(**settings) as (address, _), aiohttp.ClientSession() as client:
        headers = {"Authorization": "Bearer sk-mock"}
        for body in ([1, 2], {"model": "m", "messages": 3}):
            async with client.post(
                f"{address}/v1/chat/completions", json=body, headers=headers
            ) as answer:
                assert answer.status in (400, 500)
    assert upstream.bodies[0] == [1, 2]


async def test_a_request_that_is_nested_too_deeply_is_refused(upstream, tmp_path):
    used = b'{"type":"tool_use","id":"t","name":"f","input":' + b'{"a":' * 1000 + b"1" + b"}" * 1001
    body = b'{"model":"m","messages":[{"role":"assistant","content":[' + used + b"]}]}"
    settings = {"upstream": upstream.base_url, "record": "deep", "root": tmp_path}
    async with (
        serve_here(**settings) as (address, _),
        aiohttp.ClientSession(headers={"x-api-key": "k"}) as client,
        client.post(f"{address}/v1/messages", data=body) as said,
    ):
        assert (said.status, (await said.json())["type"]) == (400, "error")
    assert not upstream.headers

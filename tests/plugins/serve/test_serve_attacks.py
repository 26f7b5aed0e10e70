"""What clients may send to `skillwright serve` on purpose: no path, head or body leads further."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from hypothesis import given
from hypothesis import strategies as st

from mock_openai import completion
from serving import KEY, serve_here
from skillwright.plugins.serve import connections, front
from skillwright.plugins.serve.raw_json import parsed, patched

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
CHAT = "/v1/chat/completions"


class Endpoint:
    """Answers every request to any path, and keeps it."""

    def __init__(self):
        self.seen, self.bodies, self.base_url = [], [], ""
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def answer(self, request):
        self.seen.append(request)
        self.bodies.append(await request.read())
        await self.is_free.wait()
        return web.json_response(completion("ok"))


@pytest.fixture
async def upstream():
    endpoint = Endpoint()
    async with RawTestServer(endpoint.answer) as server:
        endpoint.base_url = str(server.make_url("/v1"))
        yield endpoint


@pytest.fixture
async def operators(upstream):
    """The address of a server that has the endpoint's key."""
    async with serve_here(upstream=upstream.base_url, upstream_key="operators") as (address, _):
        yield address


async def said(address, *parts):
    """Send bytes, and return what is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    for part in parts:
        writer.write(part)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    return answer


def request(target=CHAT, body=BODY, *, method="POST", extra="", length=None, key=KEY):
    size = len(body) if length is None else length
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Connection: close\r\nContent-Length: {size}\r\n{extra}\r\n"
    )
    return head.encode("latin-1") + body


def status(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../admin/keys",
        "/v1/%2e%2e/admin/keys",
        "/v1/.%2E/admin/keys",
        "/v1/%252e%252e/admin/keys",
        "/v1/%25252e%25252e/admin",
        "/v1/chat/../../admin",
        "/v1/..%2fadmin",
        "/v1/%2e%2e%2fadmin",
        "/v1/..\\admin",
        "/v1\\..\\admin",
        "/v1/..%5cadmin",
        "/v1/..;/admin",
        "/v1/.;a=b/../admin",
        "/v1//admin",
        "/v1//../admin",
        "//evil.example/v1/models",
        "/v1/./models",
        "/v1/%2e/models",
        "/v1/models/..",
        "/v1/models/%2e%2e?x=1",
        "/v1/%ef%bc%8e%ef%bc%8e/admin",
        "/v1/\xe2\x80\xa5/admin",
        "/v1/%00/models",
        "/v1/%0d%0aX-Evil:%201/models",
        "/v1/models#/../../admin",
        "/v1",
        "/v1/",
        "/V1/models",
        "/v1../admin",
        "/v1%2f..%2fadmin",
        "/%761/models",
        "/admin",
        "*",
        "http://127.0.0.1/admin",
        "http://127.0.0.1/v1/../admin",
        "http://evil.example/v1/models",
        "https://127.0.0.1:1/v1/models",
        "@evil.example/v1/models",
        "127.0.0.1:80",
    ],
)
async def test_no_target_outside_v1_reaches_the_endpoint(operators, upstream, target):
    assert status(await said(operators, request(target, b"", method="GET"))) in (400, 404)
    assert not upstream.seen


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "DEBUG"])
async def test_no_other_method_reaches_the_endpoint(operators, upstream, method):
    assert status(await said(operators, request("/v1/models", b"", method=method))) in (400, 405)
    assert not upstream.seen


@pytest.mark.parametrize(
    "target", [CHAT, f"{CHAT}/", f"{CHAT}?a=/../&b=%2e%2e", "/v1/%63hat/completions"]
)
async def test_targets_below_v1_reach_it(operators, upstream, target):
    assert status(await said(operators, request(target))) == 200
    (sent,) = upstream.seen
    assert sent.headers["Authorization"] == "Bearer operators"


async def test_headers_that_rename_path_or_method_stay_here(operators, upstream):
    extra = (
        "X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX-HTTP-Method-Override: DELETE\r\n"
        "Connection: X-Private\r\nX-Private: 1\r\nX-Kept: 1\r\n"
    )
    assert status(await said(operators, request(extra=extra))) == 200
    (sent,) = ({name.lower() for name in one.headers} for one in upstream.seen)
    assert "x-kept" in sent
    assert not {"x-original-url", "x-rewrite-url", "x-http-method-override", "x-private"} & sent


SMUGGLED = b"0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "extra",
    [
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "Content-Length: 6\r\n",
        "Content-Length: 0\r\n",
        "Content-Length : 1\r\n",
        "X: a\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 7\r\n",
        "X: a\x00b\r\n",
        "X: a\rTransfer-Encoding: chunked\r\n",
    ],
)
async def test_a_request_of_two_lengths_is_refused(operators, upstream, extra):
    answer = await said(operators, request(body=SMUGGLED, extra=extra))
    assert status(answer) == 400
    assert answer.count(b"HTTP/1.") == 1
    assert not upstream.seen


@pytest.mark.parametrize("length", ["-5", "+5", "0x5", "5, 6", "1e1", "", "5 5", "9" * 30, "\xb2"])
async def test_a_length_that_is_no_number_is_refused(operators, upstream, length):
    assert status(await said(operators, request(length=length))) in (400, 413)
    assert not upstream.seen


# Values.

VALUES = [
    "123456789012345678901234567890",
    "-123456789012345678901234567890",
    "1" * 5000,
    "1e400",
    "-0",
    "-0.0",
    "1.0",
    "1E5",
    "0.1000000000000000055511151231257827",
    "3.141592653589793238462643383279",
    '{"a":1,"a":2}',
    '"\\ud800"',
    '"\\u0000\\u001b"',
    '"\\/"',
    "[1,  2 ]",
]
USER = '{"role":"user","content":"go \\ud83d on"}'
SYSTEM = '{"role":"system","content":"be \\udc00 kind","seed":1e400}'
PARTS = '{"role":"developer","content":[{"type":"text","text":"A","x":-0}]}'


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("system", ["", SYSTEM, PARTS])
async def test_every_value_passes_as_it_was_written(upstream, tmp_path, value, system):
    skill = tmp_path / "skill.md"
    skill.write_text("Be brief: é.", encoding="utf-8")
    sent = (
        f'{{"model":"m", "seed": {value},"tools":[{{"x":{value}}}],'
        f'"messages":[{system}{"," if system else ""} {USER}],"last":{value}}}'
    )
    settings = {"upstream": upstream.base_url, "skill": str(skill)}
    async with serve_here(**settings, record="raw", root=tmp_path) as (address, _):
        assert status(await said(address, request(body=sent.encode(), key="theirs"))) == 200
    got = upstream.bodies[0].decode()
    assert got.startswith(
        '{"model":"m", "seed": ' + f'{value},"tools":[{{"x":{value}}}],"messages":['
    )
    assert got.endswith(f'{USER}],"last":{value}}}')
    first = parsed(got)["messages"][0]
    assert "Be brief: é." in json.dumps(first, ensure_ascii=False)
    assert ("be \udc00 kind" in str(first["content"])) == (system == SYSTEM)
    assert ('"seed":1e400' in got) == (system == SYSTEM)
    assert ('"x":-0}' in got) == (system == PARTS or value == "-0")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), JSON), st.text(), JSON, st.sampled_from([None, 1, "\t"]))
def test_a_changed_value_changes_no_other(before, key, value, indent):
    after = {**before, key: value}
    text = json.dumps(before, indent=indent)
    assert patched(f" {text}", before, after).lstrip() == patched(text, before, after)
    assert json.loads(patched(text, before, after)) == after
    two = {**after, f"{key}1": value, f"{key}2": value}
    assert json.loads(patched(text, before, two)) == two


@given(st.lists(JSON), JSON, st.booleans())
def test_an_element_more_changes_no_other(items, value, at_start):
    before = {"a": items}
    after = {"a": [value, *items] if at_start else [*items, value]}
    assert json.loads(patched(json.dumps(before), before, after)) == after


# Clients that are slow, many, or silent.


async def connected(address, data=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(data)
    await writer.drain()
    return reader, writer


SLOW = {
    "silent": b"",
    "slow head": b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "slow body": request(length=1000),
}


@pytest.mark.parametrize("kind", SLOW)
async def test_slow_clients_neither_take_slots_nor_keep_others_out(upstream, kind):
    settings = {"upstream": upstream.base_url, "in_flight": 2, "connections": 16}
    async with serve_here(**settings) as (address, served):
        slow = [await connected(address, SLOW[kind]) for _ in range(40)]
        for _ in range(3):
            assert status(await said(address, request(key="theirs"))) == 200
        assert served.front.slots.waiting == served.front.slots.in_flight == 0
        for _, writer in slow:
            writer.close()


@pytest.mark.parametrize("kind", SLOW)
async def test_a_slow_client_is_closed_in_time(upstream, kind, monkeypatch):
    monkeypatch.setattr(connections, "_HEAD_S", 0.05)
    monkeypatch.setattr(connections, "_LINGERS_S", 0.05)
    monkeypatch.setattr(front, "_BODY_S", 0.05)
    async with serve_here(upstream=upstream.base_url) as (address, _):
        reader, writer = await connected(address, SLOW[kind])
        async with asyncio.timeout(30):
            answer = await reader.read()
        assert (b" 408 " in answer) == (kind == "slow body")
        writer.close()


async def test_connections_that_are_being_answered_stay_and_more_are_sent_away(upstream):
    upstream.is_free.clear()
    settings = {"upstream": upstream.base_url, "connections": 3}
    async with serve_here(**settings) as (address, _):
        answers = [asyncio.create_task(said(address, request(key="theirs"))) for _ in range(3)]
        async with asyncio.timeout(10):
            while len(upstream.seen) < 3:  # noqa: ASYNC110 - nobody reports it
                await asyncio.sleep(0)
        refused = await said(address)
        assert status(refused) == 503
        assert b"Retry-After: 1" in refused
        upstream.is_free.set()
        assert [status(await one) for one in answers] == [200, 200, 200]
        assert status(await said(address, request(key="theirs"))) == 200


def test_of_two_clients_neither_takes_all_connections():
    crowd = connections._Connections(8)
    for number in range(4):
        assert crowd.make_room("busy")
        crowd.add(_Held(number), "busy")
        crowd.is_answered(list(crowd._open)[-1])
    assert crowd.make_room("other")
    crowd.add(_Held(9), "other")
    assert not crowd.make_room("busy")  # it has half, and none of its connections waits
    assert crowd.make_room("other")


class _Held:
    def __init__(self, number):
        self.number = number

    def force_close(self):
        raise AssertionError(f"{self.number} was closed")


async def test_all_bodies_together_are_bounded(upstream, monkeypatch):
    monkeypatch.setattr(front, "_MOST_HELD", 1000)
    async with serve_here(upstream=upstream.base_url) as (address, _):
        slow = [await connected(address, request(body=b" " * 400, length=500)) for _ in range(2)]
        async with asyncio.timeout(10):
            while status(await said(address, request(body=b" " * 400))) != 429:  # noqa: ASYNC110
                await asyncio.sleep(0)
        for _, writer in slow:
            writer.close()

import asyncio
import socket
import traceback

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mock_endpoint import trickle
from mock_openai import MockOpenAI, hold, raw, reset, status, truncated
from skillwright.core import ModelError, ModelRefused, ModelTimeout, ReplyInvalid
from skillwright.models import EndpointFault, HttpClient
from skillwright.models.http.client import decode, encode, fault_of, without_secrets

HEADERS = {"Authorization": "Bearer sk-mock"}
BODY = encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})


async def post(client, server, timeout_s=5.0, body=BODY):
    url = f"{server.base_url}/chat/completions"
    return await client.post_json(url, body, headers=HEADERS, timeout_s=timeout_s)


async def test_a_reply_is_read_whole(client, mock_openai):
    reply = await post(client, mock_openai)
    assert (reply.status, reply.text) == (200, "")
    assert reply.payload["choices"][0]["message"]["content"] == "ok"


async def test_an_error_status_is_a_reply_too(client, mock_openai):
    mock_openai.next(status(503, "busy", retry_after="3"), raw(b"<b>bad</b>", "text/html", 502))
    busy = await post(client, mock_openai)
    assert (busy.status, busy.payload["error"]["message"]) == (503, "busy")
    assert busy.headers["retry-after"] == "3"
    page = await post(client, mock_openai)
    assert (page.status, page.payload, page.text) == (502, None, "<b>bad</b>")


async def test_one_connection_serves_calls_that_follow_each_other(client, mock_openai):
    for _ in range(3):
        await post(client, mock_openai)
    assert len(mock_openai.connections) == 1


async def test_a_large_request_is_sent_without_a_warning(client, mock_openai):
    message = {"role": "user", "content": "x" * 3_000_000}
    await post(client, mock_openai, body=encode({"model": "m", "messages": [message]}))
    assert len(mock_openai.bodies[0]["messages"][0]["content"]) == 3_000_000


async def test_a_reply_longer_than_the_bound_is_not_read(mock_openai):
    mock_openai.next(raw(b'"' + b"x" * 5_000 + b'"'))
    async with HttpClient(max_reply_bytes=1_000) as client:
        with pytest.raises(ReplyInvalid, match="more than 1,000 bytes"):
            await post(client, mock_openai)
        assert (await post(client, mock_openai)).status == 200


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (reset(), EndpointFault, "closed the connection"),
        (truncated(), EndpointFault, "broke off in the middle"),
        (raw(b'{"a": '), EndpointFault, "broken JSON"),
        (raw(b"", "text/plain"), EndpointFault, "broken JSON"),
        (raw(b"<html>", "text/html"), ModelRefused, "web page"),
    ],
)
async def test_a_broken_exchange_is_typed_and_names_the_url(
    client, mock_openai, fault, kind, words
):
    mock_openai.next(fault)
    with pytest.raises(kind, match=words) as caught:
        await post(client, mock_openai)
    assert mock_openai.base_url in str(caught.value)
    assert "sk-mock" not in "".join(traceback.format_exception(caught.value))


async def test_time_runs_out_for_the_whole_exchange(client, mock_openai):
    mock_openai.next(hold(asyncio.Event()))
    with pytest.raises(ModelTimeout, match=r"within 0\.02 s"):
        await post(client, mock_openai, timeout_s=0.02)
    await mock_openai.until(lambda server: server.in_flight == 0)


async def test_a_server_that_sends_byte_after_byte_is_cut_off(client, mock_openai):
    mock_openai.next(trickle())
    with pytest.raises(ModelTimeout, match=r"within 0\.05 s"):
        await post(client, mock_openai, timeout_s=0.05)
    await mock_openai.until(lambda server: server.in_flight == 0)


async def test_a_server_that_never_ends_is_cut_off_at_the_bound(mock_openai):
    mock_openai.next(trickle())
    async with HttpClient(max_reply_bytes=500) as client:
        with pytest.raises(ReplyInvalid, match="more than 500 bytes"):
            await post(client, mock_openai)
    await mock_openai.until(lambda server: server.in_flight == 0)


async def test_a_reply_over_ten_megabytes_is_refused_by_default(client, mock_openai):
    mock_openai.next(raw(b'"' + b"x" * 10_000_001 + b'"'))
    with pytest.raises(ReplyInvalid, match="more than 10,000,000 bytes"):
        await post(client, mock_openai)


async def test_a_stream_is_read_as_the_list_of_its_events(client, mock_openai):
    body = b'event: a\ndata: {"a":\ndata: 1}\n\n: ping\n\ndata: {"b": 2}\r\n\r\ndata: [DONE]\n\n'
    mock_openai.next(raw(body, "text/event-stream"), raw(b"data: {", "text/event-stream"))
    assert list((await post(client, mock_openai)).payload) == [{"a": 1}, {"b": 2}]
    with pytest.raises(EndpointFault, match="broken JSON"):
        await post(client, mock_openai)


async def test_a_server_that_is_not_there_refuses_the_connection(client):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/chat/completions"
        with pytest.raises(EndpointFault, match="refused the connection"):
            await client.post_json(url, BODY, headers={}, timeout_s=5)


async def test_tls_to_a_plain_server_is_refused_with_advice(client, mock_openai):
    url = mock_openai.base_url.replace("http://", "https://") + "/chat/completions"
    with pytest.raises(ModelRefused, match=r"TLS failed.*Use http://"):
        await client.post_json(url, BODY, headers={}, timeout_s=5)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (socket.EAI_NONAME, ModelRefused, "there is no host 'host'"),
        (socket.EAI_AGAIN, EndpointFault, "name server did not answer"),
    ],
)
def test_an_unknown_host_is_told_from_a_silent_name_server(code, kind, words):
    key = aiohttp.client_reqrep.ConnectionKey("host", 80, False, True, None, None, None)
    error = aiohttp.ClientConnectorDNSError(key, socket.gaierror(code, "no"))
    fault = fault_of("http://host/v1", error)
    assert type(fault) is kind
    assert words in str(fault)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aiohttp.ConnectionTimeoutError(), ModelTimeout),
        (aiohttp.InvalidURL("http://"), ModelRefused),
        (aiohttp.ClientConnectionResetError("gone"), EndpointFault),
        (aiohttp.ClientError("odd"), EndpointFault),
    ],
)
def test_every_other_transport_error_is_typed(error, kind):
    fault = fault_of("http://host/v1", error)
    assert type(fault) is kind
    assert "http://host/v1" in str(fault)


@pytest.fixture
def set_proxy(monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


async def test_a_proxy_that_lets_nothing_through_is_named(set_proxy):
    async with MockOpenAI() as proxy, HttpClient() as client:
        set_proxy("https_proxy", proxy.base_url.removesuffix("/v1"))
        with pytest.raises(EndpointFault, match="the proxy that HTTPS_PROXY names answered 4"):
            await client.post_json("https://far.invalid/v1", BODY, headers=HEADERS, timeout_s=5)


async def test_a_closed_client_says_so(mock_openai):
    client = HttpClient()
    await client.aclose()
    await client.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await post(client, mock_openai)


async def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(set_proxy):
    async with MockOpenAI() as proxy, HttpClient() as client:
        set_proxy("http_proxy", proxy.base_url.removesuffix("/v1"))
        url = "http://far.invalid/v1/chat/completions"
        reply = await client.post_json(url, BODY, headers=HEADERS, timeout_s=5)
        assert reply.status == 200
        assert proxy.headers[0]["Host"] == "far.invalid"
        assert (await post(client, proxy)).status == 200


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("http://me:hunter2@127.0.0.1:9", "the proxy that HTTP_PROXY or HTTPS_PROXY names"),
        ("127.0.0.1:9", "the proxy that HTTP_PROXY or HTTPS_PROXY names"),
        ("socks5://me:hunter2@127.0.0.1:9", "HTTP_PROXY names no HTTP proxy"),
        ("http://me:hunter2@", "HTTP_PROXY names no HTTP proxy"),
    ],
)
async def test_a_proxy_that_does_not_work_is_named_and_not_the_endpoint(
    client, set_proxy, proxy, words
):
    set_proxy("http_proxy", proxy)
    with pytest.raises(ModelError, match=words) as caught:
        await client.post_json("http://far.invalid/v1", BODY, headers=HEADERS, timeout_s=5)
    assert "hunter2" not in str(caught.value)
    assert "base_url" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:pw@host:1/v1?key=s#f", "http://host:1/v1"),
        ("https://host/v1/chat", "https://host/v1/chat"),
    ],
)
def test_a_shown_url_holds_no_secret(url, shown):
    assert without_secrets(url) == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON)
def test_json_survives_the_way_there_and_back(value):
    assert decode(encode(value)) == value


def test_half_characters_become_question_marks_on_both_ways():
    assert decode(b'{"a": "x\\ud83d"}') == {"a": "x?"}
    assert encode("x\ud83d") == b'"x?"'


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b'["\\ud83d", ' + b"[" * 100_000]
)
def test_what_is_not_json_is_a_value_error(body):
    with pytest.raises(ValueError):  # noqa: PT011 - three libraries word it in their own ways
        decode(body)

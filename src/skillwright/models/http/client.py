"""The HTTP client: a pooled aiohttp session that posts JSON and raises typed errors.

It neither retries nor logs, and its errors show URLs without query and user. aiohttp takes about
0.1 ms of CPU per request; vendor SDKs take 1 to 3 ms.
"""

import asyncio
import io
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from skillwright.core import ModelError, ModelRefused, ModelTimeout, ReplyInvalid
from skillwright.core.errors import certificate_problem
from skillwright.models.http.traffic import EndpointLimits
from skillwright.models.http.wire import EndpointFault, GarbledReply, WebPage

MAX_REPLY_BYTES = 10_000_000

_SMALL_BYTES = 500_000  # shorter JSON cannot fill the memory
_MOST_MEMORY = 32_000_000
_LONGEST_EVENT = 1_000_000
_EVENT = re.compile(rb"(?:[^\r\n]++(?:\r\n|\n|\r|\Z))++")  # lines, up to an empty one
# What servers send while they work: blank lines, and the comments and fields of a stream.
_KEEPALIVE = re.compile(
    rb"(?:\xef\xbb\xbf|[ \t]*+(?:(?::|event:|id:|retry:)[^\r\n]*+|data:[ \t]*+)?[\r\n]++)*+"
)
_PAGE = re.compile(rb"(?:\xef\xbb\xbf|\s)*+<(?:!doctype html|html)\b", re.IGNORECASE)
_CONNECT_S = 15.0
_COPIED_BYTES = 2**20
_EXCERPT = 2_000
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An endpoint's reply of any status.

    Attributes:
        url: URL without secrets.
        status: HTTP status.
        headers: Case-insensitive.
        payload: JSON value of the body, or the `Events` of a stream; ``None`` for an error page.
        text: Start of an error's body, for messages; empty for a success.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    payload: Any
    text: str = ""


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a stream, decoded on each iteration: all at once would take much memory."""

    body: bytes

    def __iter__(self) -> Iterator[Any]:
        """Yield the events' JSON values."""
        for event in _EVENT.finditer(self.body):
            if event.end() - event.start() > _LONGEST_EVENT:
                raise ReplyTooLarge("an event of its stream is too long")
            lines = event[0].splitlines()
            data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
            if data and data != b"[DONE]":
                yield decode(data)


class ReplyTooLarge(ValueError):
    """JSON of a few megabytes whose values would fill the memory."""


class HttpClient:
    """Posts JSON over a connection pool, which opens on first use inside the running loop.

    Use it as ``async with HttpClient() as client``, or call `aclose`. The pool is unbounded;
    ``limits`` bounds the calls per endpoint, and longer replies than ``max_reply_bytes`` fail.
    """

    def __init__(
        self, *, max_reply_bytes: int = MAX_REPLY_BYTES, limits: EndpointLimits | None = None
    ) -> None:
        self._limits = limits or EndpointLimits()
        self._max_reply_bytes = max_reply_bytes
        self._session: aiohttp.ClientSession | None = None
        self._ends: list[Callable[[], None]] = []
        self._proxies: dict[str, str | None] = {}
        self._closed = False

    @property
    def limits(self) -> EndpointLimits:
        """Limits of the calls in flight, per endpoint."""
        return self._limits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the pool; idempotent. Posting afterwards is a bug."""
        self._closed = True
        while self._ends:
            self._ends.pop()()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def at_close(self, end: Callable[[], None]) -> None:
        """Call ``end`` when the pool closes, to release what models share."""
        self._ends.append(end)

    async def post_json(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> HttpReply:
        """Post a JSON document and read the complete reply; only a success must be JSON.

        Raises:
            ModelTimeout: No reply within ``timeout_s``.
            EndpointFault: The connection failed or broke off.
            ModelRefused: Unknown host, TLS failure, invalid proxy, or a web page as answer.
            ReplyInvalid: The reply is too long, or takes too much memory.
        """
        shown = without_secrets(url)
        # aiohttp warns about large ``bytes``, which it copies into the transport at once.
        payload = body if len(body) < _COPIED_BYTES else io.BytesIO(body)
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().post(
                    url,
                    data=payload,
                    headers={"Content-Type": "application/json", **headers},
                    proxy=self._proxy(url),
                    allow_redirects=False,
                ) as response,
            ):
                return _reply(shown, response, await self._read(shown, response))
        except aiohttp.ClientError as error:
            # Without the cause: some aiohttp errors contain the proxy's password or the key.
            raise fault_of(shown, error) from None
        except TimeoutError as error:
            raise ModelTimeout(
                f"{shown} did not answer within {timeout_s:g} s. Raise timeout_s, ask for fewer "
                "tokens, or lower max_concurrent if the server is busy."
            ) from error

    @asynccontextmanager
    async def relay(
        self, method: str, url: str, body: bytes, *, headers: Mapping[str, str], silent_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Forward another client's request and yield the reply, of any status, unread.

        Errors are those of `post_json`; after ``silent_s`` seconds without a byte, `ModelTimeout`.
        """
        shown = without_secrets(url)
        try:
            async with self._open().request(
                method,
                url,
                data=(body or None) if len(body) < _COPIED_BYTES else io.BytesIO(body),
                headers=headers,
                proxy=self._proxy(url),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_CONNECT_S, sock_read=silent_s
                ),
            ) as response:
                yield response
        except aiohttp.SocketTimeoutError:
            raise ModelTimeout(
                f"{shown} sent nothing for {silent_s:g} s. Raise --silent-s, or look at its log."
            ) from None
        except aiohttp.ClientError as error:
            # Without the cause: some aiohttp errors contain the proxy's password or the key.
            raise fault_of(shown, error) from None

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("this HttpClient is closed; make models with an open one")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "skillwright", "Accept": "application/json"},
            )
        return self._session

    def _proxy(self, url: str) -> str | None:
        """Find the environment's proxy for a host; cached per host.

        aiohttp's ``trust_env`` would read the environment at every request, and let a netrc file
        replace the key.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.hostname}"
        if origin not in self._proxies:
            host = parts.hostname or ""
            direct = host in _LOOPBACK or bool(proxy_bypass(host))
            self._proxies[origin] = None if direct else _proxy_for(parts.scheme)
        return self._proxies[origin]

    async def _read(self, url: str, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while chunk := await response.content.readany():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_reply_bytes:
                response.close()  # with an unread rest, the connection cannot be reused
                raise ReplyInvalid(
                    f"{url} sent more than {self._max_reply_bytes:,} bytes for one call. "
                    "Lower max_tokens, or check that base_url is a chat endpoint."
                )
        return b"".join(chunks)


def _proxy_for(scheme: str) -> str | None:
    named = getproxies().get(scheme)
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    parts = urlsplit(proxy)
    with suppress(ValueError):  # of an invalid port
        _ = parts.port
        if parts.scheme in ("http", "https") and parts.hostname:
            return proxy
    raise ModelRefused(
        f"{scheme.upper()}_PROXY names no HTTP proxy; write http://host:port, or name this "
        "endpoint's host in NO_PROXY"
    )


def encode(value: Any) -> bytes:
    """Return a value as JSON bytes; lone surrogates become ``?``."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Lone surrogates come from games and from files with encoding errors.
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def decode(body: bytes) -> Any:
    """Read JSON bytes."""
    if len(body) > _SMALL_BYTES and _memory_of(body) > _MOST_MEMORY:
        raise ReplyTooLarge("it holds more values, or a longer text, than an answer does")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if len(body) > _SMALL_BYTES:
            raise
        return _decode_leniently(body, error)


def is_stream(payload: Any) -> bool:
    """Return whether a reply is a sequence of events; a JSON list counts as one."""
    return isinstance(payload, Events | list)


def _memory_of(body: bytes) -> int:
    """Return an upper bound of the memory that JSON takes in Python, in bytes."""
    is_wide = not body.isascii() or b"\\u" in body
    # A string with one wide character takes four bytes per character, and is copied in parts.
    texts = len(body) * (6 if is_wide else 1)
    return texts + 240 * body.count(b"{") + 90 * body.count(b"[") + 48 * body.count(b",")


def _decode_leniently(body: bytes, error: ValueError) -> Any:
    """Decode JSON with a byte order mark, in Latin-1, with NaN (as null), or with half escapes.

    Half of an escaped character remains where a model stopped inside it.
    """
    try:
        written = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        written = body.decode("latin-1")
    try:
        value = json.loads(written, parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        raise error from None
    return orjson.loads(text.encode("utf-8", "replace"))


def without_secrets(url: str) -> str:
    """Return a URL or path without user, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


def fault_of(url: str, error: aiohttp.ClientError) -> ModelError:
    """Translate a transport error, with advice; ``url`` is shown, so it holds no secret."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return ModelTimeout(
                f"{url} accepted no connection within {_CONNECT_S:g} s. "
                "Check base_url, and that the server runs and can be reached from here."
            )
        case aiohttp.ClientConnectorCertificateError(
            certificate_error=ssl.SSLCertVerificationError() as refused
        ):
            return ModelRefused(f"{url}: {certificate_problem(refused)}.")
        case aiohttp.ClientSSLError():
            return ModelRefused(
                f"{url}: TLS failed: {error}. Use http:// if the server has no TLS; otherwise "
                "check its certificate, SSL_CERT_FILE and this machine's clock."
            )
        case aiohttp.ClientConnectorError():
            return _not_connected(url, error)
        case aiohttp.ClientHttpProxyError():
            return EndpointFault(
                f"{url}: the proxy that HTTPS_PROXY names answered {error.status} and let nothing "
                "through. Correct it, or name this endpoint's host in NO_PROXY."
            )
        case aiohttp.InvalidURL():
            return ModelRefused(f"{url} is no URL. Check base_url.")
        case aiohttp.ClientPayloadError():
            return EndpointFault(
                f"{url} broke off in the middle of its reply. Look at the server's log."
            )
        case aiohttp.ClientConnectionError():
            return EndpointFault(
                f"{url} closed the connection without an answer. Look at the server's log."
            )
        case _:
            # The type only: some aiohttp errors contain the request's headers with the key.
            return EndpointFault(f"{url}: the HTTP exchange failed ({type(error).__name__}).")


def _not_connected(url: str, error: aiohttp.ClientConnectorError) -> ModelError:
    match error:
        case aiohttp.ClientConnectorDNSError(os_error=OSError(errno=socket.EAI_NONAME)):
            host = urlsplit(url).hostname
            return ModelRefused(f"{url}: there is no host {host!r}. Check base_url for a typo.")
        case aiohttp.ClientConnectorDNSError():
            return EndpointFault(f"{url}: the name server did not answer. Check the network.")
        case aiohttp.ClientProxyConnectionError():
            return EndpointFault(
                f"{url}: the proxy that HTTP_PROXY or HTTPS_PROXY names cannot be reached. Correct "
                "it, or name this endpoint's host in NO_PROXY."
            )
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return EndpointFault(
                f"{url} refused the connection. Check that the server runs and that base_url "
                "has its port."
            )
        case _:
            return EndpointFault(f"{url} cannot be reached: {error.os_error}. Check the network.")


def _reply(url: str, response: aiohttp.ClientResponse, body: bytes) -> HttpReply:
    succeeded = 200 <= response.status < 300
    kind = response.content_type
    payload = None
    try:
        payload = _read_body(body, kind)
    except ReplyTooLarge as error:
        fault: ModelError | None = ReplyInvalid(
            f"{url} sent {len(body):,} bytes for one call, and {error}. Lower max_tokens, or check "
            "that base_url is a chat endpoint."
        )
    except ValueError:
        fault = _not_json(url, kind, body)
    else:
        fault = None
    text = "" if succeeded else body[:_EXCERPT].decode("utf-8", "replace")
    # A retried error would keep this frame and the decoder's alive, with all of the reply.
    del body
    if fault is not None and succeeded:
        raise fault
    return HttpReply(url, response.status, response.headers, payload, text)


def _read_body(body: bytes, kind: str) -> Any:
    if begun := _KEEPALIVE.match(body).end():  # type: ignore[union-attr]  # it matches nothing too
        body = body[begun:]
    if kind == "text/event-stream" or body.startswith(b"data:"):
        events = Events(body)
        if sum(1 for _ in events):  # decode all once, so that an invalid event fails here
            return events
    return decode(body)  # some servers label errors as streams


def _not_json(url: str, content_type: str, body: bytes) -> ModelError:
    if content_type == "text/html" or _PAGE.match(body):
        return WebPage(
            f"{url} answered with a web page, not JSON. Check base_url: it usually ends with /v1."
        )
    if not body.strip():
        return GarbledReply(f"{url} answered with an empty body, which is broken JSON.")
    start = body[:80].decode("utf-8", "replace")
    return GarbledReply(f"{url} answered with broken JSON, which begins {start!r}.")

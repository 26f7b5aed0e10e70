"""The transports of MCP: lines on standard input and output, and streamable HTTP."""

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from socket import socket
from typing import IO, Final

from aiohttp import web

from skillwright.core.loopback import HOST, port_named, same_token
from skillwright.models.http.client import encode
from skillwright.plugins.serve.connections import listening
from skillwright.plugins.serve.front import ClientGone, Reply
from skillwright.plugins.serve.skills_mcp import (
    INVALID_REQUEST,
    MOST_REQUEST_BYTES,
    UNSUPPORTED_VERSION,
    VERSIONS,
    Fault,
    SkillsServer,
    parse,
)

PATH: Final = "/mcp"
_BODY_S: Final = 60.0
_HEADER_MISMATCH: Final = -32020
_BASE64: Final = re.compile(r"=\?base64\?(.*)\?=")


def serve_lines(server: SkillsServer, lines: IO[bytes], replies: IO[bytes]) -> None:
    """Answer messages, one a line, until the client closes its end.

    A client that does not read its replies stops the server from reading on, so nothing piles up.
    """
    with asyncio.Runner() as runner, suppress(BrokenPipeError):
        while line := lines.readline(MOST_REQUEST_BYTES + 2):
            while not line.endswith(b"\n") and (rest := lines.readline(MOST_REQUEST_BYTES)):
                line = line[: MOST_REQUEST_BYTES + 1] + rest[-1:]
            if not line.strip():
                continue
            reply = runner.run(server.answer(line.rstrip(b"\r\n")))
            if reply is not None:
                replies.write(encode(reply) + b"\n")
                replies.flush()


@asynccontextmanager
async def serving_http(
    server: SkillsServer, bound: socket, key: str, silent_s: float, most: int
) -> AsyncIterator[None]:
    """Answer POST requests to `PATH`, each by one JSON reply, until the block ends.

    Args:
        server: Answers messages.
        bound: The socket.
        key: Key of requests.
        silent_s: Seconds for which a client may read nothing of its reply.
        most: Open connections.
    """
    is_local = bound.getsockname()[0] == HOST

    async def handle(
        request: web.BaseRequest, is_complete: Callable[[], None]
    ) -> web.StreamResponse:
        reply = Reply(request, silent_s)
        refused = _refused(request, key, is_local=is_local)
        raw = b"" if refused else await _body(request)
        is_complete()
        with suppress(ClientGone):
            if refused is not None:
                status, why = refused
                body = Fault(INVALID_REQUEST, why).reply(None)
                await reply.whole(status, body, {"Allow": "POST"} if status == 405 else {})
            elif fault := _mismatch(request, raw):
                await reply.whole(400, fault.reply(_id_of(raw)))
            elif (answer := await server.answer(raw)) is None:
                await reply.start(202, {"Content-Length": "0"})
            else:
                await reply.whole(400 if answer["id"] is None else 200, answer)
            await reply.end()
            return reply.sent
        reply.cut()
        return reply.sent

    async with listening(handle, bound, most):
        yield


def _refused(request: web.BaseRequest, key: str, *, is_local: bool) -> tuple[int, str] | None:
    origin = request.headers.get("Origin", "")
    place = origin.partition("://")[2]
    if is_local and port_named(request.headers.get("Host", "")) is None:
        return 403, "this server answers only as 127.0.0.1 or localhost"
    if origin and port_named(place) is None:
        return 403, f"pages of {origin} may not ask this server"
    if request.path.rstrip("/") != PATH:
        return 404, f"there is nothing here; the address ends with {PATH}"
    if request.method != "POST":
        return 405, "send messages by POST; this server sends none of its own"
    shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not same_token(shown, key):
        return 401, "send Authorization: Bearer KEY; `skillwright serve` printed it when it began"
    if (request.content_length or 0) > MOST_REQUEST_BYTES:
        return 413, f"a message has at most {MOST_REQUEST_BYTES:,} bytes"
    return None


async def _body(request: web.BaseRequest) -> bytes:
    """Return a request's body, cut after the limit; what came in time if it is slow."""
    raw = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(_BODY_S):
            while len(raw) <= MOST_REQUEST_BYTES and (chunk := await request.content.readany()):
                raw += chunk
    return bytes(raw)


def _mismatch(request: web.BaseRequest, raw: bytes) -> Fault | None:
    """Check the headers that repeat parts of a message, which proxies rely on."""
    version = request.headers.get("MCP-Protocol-Version")
    if version is not None and version not in VERSIONS:
        versions = {"supported": list(VERSIONS), "requested": version}
        return Fault(UNSUPPORTED_VERSION, "unsupported protocol version", versions)
    message = _message(raw)
    params = message.get("params")
    named = [params.get("name"), params.get("uri")] if isinstance(params, dict) else []
    for header, meant in (("Mcp-Method", [message.get("method")]), ("Mcp-Name", named)):
        value = request.headers.get(header)
        if value is not None and _decoded(value) not in meant:
            return Fault(_HEADER_MISMATCH, f"the header {header} is not what the message says")
    return None


def _decoded(value: str) -> str:
    """Decode a header's value, which may be in base64 between ``=?base64?`` and ``?=``."""
    found = _BASE64.fullmatch(value)
    try:
        return b64decode(found[1], validate=True).decode() if found else value
    except ValueError:
        return value


def _message(raw: bytes) -> dict[str, object]:
    with suppress(Fault):
        return parse(raw)
    return {}


def _id_of(raw: bytes) -> object:
    return _message(raw).get("id")

"""Limits of connections: in total, per client, and of the time without data."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import socket
from typing import Final

from aiohttp import web

_HEAD_S: Final = 20.0  # until the head of a connection's first request is complete
_IDLE_S: Final = 75.0  # between a connection's requests
_LINGERS_S: Final = 2.0  # before closing with an unread body, so that the client gets the reason
_GRACE_S: Final = 1.0  # for answers in progress when the server ends
_SHARE: Final = 2  # of all connections, one client may have half
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)

Handle = Callable[[web.BaseRequest, Callable[[], None]], Awaitable[web.StreamResponse]]
"""Answers a request; the function that it gets is called when the request is complete."""


class _Connections:
    """The open connections.

    At the limit, a new connection replaces the one that has waited longest for a complete request.
    Connections that are being answered stay.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[web.RequestHandler, str] = {}
        self._waiting: dict[web.RequestHandler, None] = {}
        self._of_client: Counter[str] = Counter()

    def make_room(self, client: str) -> bool:
        """Make room for a connection of a client; return whether there is room."""
        is_full = len(self._open) >= self._most
        has_share = self._of_client[client] >= max(1, self._most // _SHARE)
        others = len(self._of_client) > 1
        if not is_full and not (has_share and others):
            return True
        for one in self._waiting:
            if self._open[one] == client or not has_share:
                self.remove(one)
                one.force_close()
                return True
        return False

    def add(self, one: "web.RequestHandler", client: str) -> None:
        """Add a connection, which waits for its first request."""
        self._open[one] = client
        self._of_client[client] += 1
        self._waiting[one] = None

    def remove(self, one: "web.RequestHandler") -> None:
        """Remove a connection, if it is there."""
        self._waiting.pop(one, None)
        client = self._open.pop(one, None)
        if client is not None:
            self._of_client[client] -= 1
            self._of_client += Counter()  # drops zeros

    def is_answered(self, one: "web.RequestHandler") -> None:
        """Keep a connection: its request is complete."""
        self._waiting.pop(one, None)

    def waits(self, one: "web.RequestHandler") -> None:
        """Let a connection wait for its next request."""
        if one in self._open:
            self._waiting[one] = None


class _Connection(web.RequestHandler):
    """A connection that is closed without the head of a request."""

    __slots__ = ("_connections", "_late")

    def __init__(self, server: "web.Server", connections: _Connections) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as its Server allows
            keepalive_timeout=_IDLE_S,
            lingering_time=_LINGERS_S,
            auto_decompress=False,
        )
        self._connections = connections
        self._late = loop.call_later(_HEAD_S, self.force_close)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP in one line; only a fault of our own is logged."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        return _refused(status, message or "the request is no HTTP")

    def has_head(self) -> None:
        """Note that the head of a request is complete."""
        self._late.cancel()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another connection."""
        self._late.cancel()
        self._connections.remove(self)
        super().connection_lost(exc)


def _refused(status: int, why: str) -> web.Response:
    refused = web.json_response({"error": {"message": " ".join(why.split())}}, status=status)
    refused.force_close()
    return refused


class _Door(asyncio.Protocol):
    """Accepts a connection, or refuses it with 503."""

    def __init__(self, server: "web.Server", connections: _Connections) -> None:
        self._server, self._connections = server, connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        client = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._connections.make_room(client):
            transport.write(_TOO_MANY)
            transport.close()
            return
        one = _Connection(self._server, self._connections)
        self._connections.add(one, client)
        transport.set_protocol(one)
        one.connection_made(transport)


@asynccontextmanager
async def listening(handle: Handle, bound: socket, most: int) -> AsyncIterator[None]:
    """Serve on a socket until the block ends; answers in progress get a second to finish.

    Args:
        handle: Answers requests.
        bound: The socket.
        most: Open connections; while all of them are being answered, further ones get 503.
    """
    connections = _Connections(most)

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        one = request.protocol
        if isinstance(one, _Connection):
            one.has_head()
        try:
            encoded = request.headers.get("Content-Encoding", "").strip()
            if encoded.lower() not in ("", "identity"):
                refused = _refused(
                    415, f"send the body as it is, not in Content-Encoding {encoded}"
                )
                refused.headers["Accept-Encoding"] = "identity"
                return refused
            return await handle(request, lambda: connections.is_answered(one))
        except web.RequestPayloadError as broken:
            return _refused(400, f"the body is broken: {broken}")
        finally:
            connections.waits(one)

    # A client that leaves cancels its request and the one to the endpoint.
    server = web.Server(handled, handler_cancellation=True)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: _Door(server, connections), sock=bound, backlog=1_024
    )
    try:
        yield
    finally:
        listener.close()
        server.pre_shutdown()
        await server.shutdown(_GRACE_S)

"""A server on 127.0.0.1 for one route of any dialect: it records, refuses, and fails on demand.

The faults are those of `mock_openai`, as they are about HTTP and not about a dialect.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from aiohttp import web

from mock_openai import Fault

Body = dict[str, Any]
Handler = Callable[[Body], Awaitable[Any]]


class MockEndpoint:
    """The server. A dialect's mock says what is refused and how an answer looks.

    Attributes:
        base_url: Where it is, without the route.
        bodies: The JSON of every request, faulty ones included, in order.
        headers: Their headers.
    """

    route = "/"

    def __init__(self, handler: Handler | None = None, api_key: str | None = "sk-mock") -> None:
        self.handler = handler or _say_ok
        self.api_key = api_key
        self.base_url = ""
        self.bodies: list[Body] = []
        self.headers: list[Mapping[str, str]] = []
        self._faults: deque[Fault] = deque()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post(self.route, self._serve)
        app.router.add_route("*", "/{path:.*}", self._serve_nothing)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._runner.cleanup()

    def next(self, *faults: Fault) -> None:
        """Let the next requests meet these faults, one each."""
        self._faults.extend(faults)

    def heal(self) -> None:
        """Forget the faults that no request has met yet."""
        self._faults.clear()

    def refusal(self, request: web.Request, body: Body) -> web.Response | None:
        """Return the error for a request that the dialect forbids."""
        raise NotImplementedError

    async def respond(self, request: web.Request, body: Body, answer: Any) -> web.StreamResponse:
        """Send what the handler answered."""
        raise NotImplementedError

    def error(self, status: int, message: str, **fields: Any) -> web.Response:
        """Build an error in the dialect's form."""
        raise NotImplementedError

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers)
        if self._faults:
            response = await self._faults.popleft()(request)
            if response is not None:
                return response
        refused = self.refusal(request, body)
        return refused or await self.respond(request, body, await self.handler(body))

    async def _serve_nothing(self, request: web.Request) -> web.Response:
        return self.error(404, f"Not found: {request.method} {request.path}")


def trickle() -> Fault:
    """Send one byte after the other, for ever."""

    async def fault(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0)  # lets the reader in; its deadline ends this

    return fault


async def _say_ok(body: Body) -> str:
    del body
    return "ok"

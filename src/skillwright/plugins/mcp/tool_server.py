"""Tools of MCP servers: programs, or servers behind a URL.

All sessions run on one event loop in a thread of its own, so a cancelled episode does not wait for
a server to end, and a server that hangs is killed.
"""

import asyncio
import atexit
import importlib
import logging
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from tempfile import TemporaryFile
from typing import IO, Any, Final, TypeVar

from skillwright.core import DataError, EnvError
from skillwright.core.jsonio import dumps
from skillwright.core.supervised import supervised
from skillwright.envs.table.tool_server import Answer, ToolServer

INSTALL: Final = "pip install 'skillwright[mcp]'"

STARTS_WITHIN_S: Final = 60.0
"""Seconds until a server must be ready."""
_SHOWN_CHARS: Final = 400
_MOST_CHARS: Final = 50_000
_ENDS_WITHIN_S: Final = 10.0  # its input closed, asked to end, then killed: 2 s each in `mcp`
_SHORTEST_SECRET: Final = 6  # redacting a shorter text would reveal it
# JSON-RPC error codes of a refused call: unknown method, invalid parameters.
_AGENTS_OWN: Final = (-32601, -32602)

Found = TypeVar("Found")


def offered_tools(server: ToolServer) -> tuple[dict[str, Any], ...]:
    """Return a server's tools in OpenAI's format; asked once per process."""
    return _offered(server.model_dump_json())


@cache
def _offered(settings: str) -> tuple[dict[str, Any], ...]:
    server = ToolServer.model_validate_json(settings)
    session = ToolSession(server)
    try:
        listed = _submit(session.list_tools()).result()
    except EnvError as error:
        raise DataError(f"{error}. Correct env.config.mcp, or start the server") from error
    finally:
        session.close()
    if not listed:
        raise DataError(f"{server.label} offers no tools")
    return tuple(_native(one) for one in sorted(listed, key=lambda one: str(one["name"])))


def _native(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "parameters": tool["inputSchema"],
    }
    return {"type": "function", "function": function}


class ToolSession:
    """One session with a server, opened at the first call."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._secrets = server.secrets()
        self._said: IO[str] | None = None  # what its program writes besides the protocol
        self._words = ""
        self._task: asyncio.Task[None] | None = None
        self._session: asyncio.Future[Any] | None = None
        self._over = asyncio.Event()
        self._is_closed = False

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool, from any loop; raise `EnvError` if the server is missing, died or hangs."""
        return await asyncio.wrap_future(_submit(self._call(name, dict(arguments))))

    def close(self) -> None:
        """End the session and its program without waiting; idempotent."""
        if not self._is_closed:
            self._is_closed = True
            _loop().call_soon_threadsafe(self._end)

    async def list_tools(self) -> list[dict[str, Any]]:
        """List the server's tools, on the loop of the sessions."""
        listed: list[dict[str, Any]] = []
        cursor: str | None = None
        while cursor or not listed:
            more = {"params": _mcp("types").PaginatedRequestParams(cursor=cursor)} if cursor else {}
            page = await self._ask(
                "tools/list", lambda session, more=more: session.list_tools(**more)
            )
            listed += [one.model_dump(mode="json", by_alias=True) for one in page.tools]
            cursor = page.model_dump(mode="json", by_alias=True).get("nextCursor")
            if not cursor:
                break
        return listed

    async def _call(self, name: str, arguments: dict[str, Any]) -> Answer:
        try:
            result = await self._ask(name, lambda session: session.call_tool(name, arguments))
        except _Refused as refused:
            return Answer(self._cleared(f"Error: {refused}"), is_error=True)
        found = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Answer(self._cleared(_text_of(found)), bool(found.get("isError")))

    async def _ask(self, what: str, ask: Any) -> Any:
        """Send a request; the server may die or hang meanwhile."""
        try:
            async with asyncio.timeout(STARTS_WITHIN_S):
                session = await self._opened()
        except TimeoutError as error:
            raise self._lost(f"did not start within {STARTS_WITHIN_S:g} s") from error
        asked = asyncio.ensure_future(ask(session))
        try:
            async with asyncio.timeout(self._server.time_limit_s):
                await asyncio.wait({asked, self._running()}, return_when="FIRST_COMPLETED")
        except TimeoutError as error:
            limit = f"{self._server.time_limit_s:g} s (env.config.mcp.time_limit_s)"
            raise self._lost(f"did not answer {what!r} within {limit}") from error
        finally:
            if not asked.done():
                asked.cancel()
        if not asked.done() or asked.cancelled():
            raise self._lost(f"ended while {what!r} was called")
        fault = asked.exception()
        if fault is None:
            return asked.result()
        if getattr(getattr(fault, "error", None), "code", None) in _AGENTS_OWN:
            raise _Refused(str(fault)) from fault
        raise self._lost(f"failed at {what!r}", fault) from fault

    async def _opened(self) -> Any:
        await asyncio.wait({self._future(), self._running()}, return_when="FIRST_COMPLETED")
        if self._future().done():
            return self._future().result()
        cause = None if self._running().cancelled() else self._running().exception()
        raise self._lost("cannot be reached", cause) from cause

    def _future(self) -> "asyncio.Future[Any]":
        if self._session is None:
            self._session = asyncio.get_running_loop().create_future()
        return self._session

    def _running(self) -> "asyncio.Task[None]":
        if self._task is None:
            self._task = asyncio.create_task(self._keep())
            _open.add(self)
            self._task.add_done_callback(lambda _: _open.discard(self))
        return self._task

    async def _keep(self) -> None:
        """Hold the session open in one task: anyio scopes must be left where they were entered."""
        with suppress(ProcessLookupError):  # it ended by itself meanwhile
            async with self._connected() as session:
                self._future().set_result(session)
                await self._over.wait()

    def _end(self) -> None:
        if self._over.is_set():  # a second cancellation would interrupt the cleanup
            return
        self._over.set()
        if self._task is not None and not self._future().done():
            self._task.cancel()  # it is still being opened

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        mcp = _mcp()
        async with AsyncExitStack() as held:
            streams = await held.enter_async_context(await self._transport(held))
            session = await held.enter_async_context(mcp.ClientSession(streams[0], streams[1]))
            await session.initialize()
            yield session

    async def _transport(self, held: AsyncExitStack) -> Any:
        if self._server.url is not None:
            token = next(iter(self._secrets.values()), "")
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            client = _mcp("shared._httpx_utils").create_mcp_http_client(headers=headers)
            http = await held.enter_async_context(client)
            return _mcp("client.streamable_http").streamable_http_client(
                self._server.url, http_client=http
            )
        program, *arguments = supervised(self._server.command)
        said = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - the stack closes it
        self._said = held.enter_context(said)
        held.callback(self._keep_last_words)
        parameters = _mcp().StdioServerParameters(
            command=program, args=arguments, env=self._secrets or None
        )
        return _mcp("client.stdio").stdio_client(parameters, errlog=self._said)

    def _lost(self, how: str, cause: BaseException | None = None) -> EnvError:
        self._end()
        why = f": {_leaf(cause)}" if cause is not None else ""
        self._keep_last_words()
        wrote = f" (it wrote: {self._words})" if self._words else ""
        return EnvError(self._cleared(f"{self._server.label} {how}{why}{wrote}"))

    def _keep_last_words(self) -> None:
        if self._said is not None and not self._said.closed:
            self._said.seek(0)
            self._words = " ".join(self._said.read().split())[-_SHOWN_CHARS:]

    def _cleared(self, text: str) -> str:
        """Redact the values of the server's variables, and cut long output."""
        for name, value in self._secrets.items():
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, f"[{name}]")
        text = text.encode("utf-8", "replace").decode("utf-8")
        left = len(text) - _MOST_CHARS
        return text if left <= 0 else f"{text[:_MOST_CHARS]}\n({left} characters left out)"


def open_session(server: ToolServer) -> ToolSession:
    """Open a session; the first call connects."""
    return ToolSession(server)


class _Refused(Exception):
    """The server refused the content of a call: an error of the agent."""


def _leaf(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).rstrip(".") or type(error).__name__


def _text_of(result: Mapping[str, Any]) -> str:
    parts = [_part(one) for one in result.get("content") or ()]
    if not parts and result.get("structuredContent") is not None:
        parts = [dumps(result["structuredContent"])]
    return "\n".join(parts)


def _part(content: Mapping[str, Any]) -> str:
    inner = content.get("resource") or content
    if isinstance(inner.get("text"), str):
        return str(inner["text"])
    about = inner.get("uri") or inner.get("mimeType") or ""
    return f"[{content.get('type', 'content')} {about}, not shown]"


_open: set[ToolSession] = set()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tool servers", daemon=True).start()
    atexit.register(_end_all)
    return loop


def _submit(work: Coroutine[Any, Any, Found]) -> "Future[Found]":
    return asyncio.run_coroutine_threadsafe(work, _loop())


async def _ended() -> None:
    tasks = [session._running() for session in _open]
    for session in list(_open):
        session._end()
    if tasks:
        await asyncio.wait(tasks, timeout=_ENDS_WITHIN_S)


def _end_all() -> None:
    """End all sessions at exit; wait briefly for their programs."""
    with suppress(TimeoutError):
        _submit(_ended()).result(_ENDS_WITHIN_S)


@cache
def _mcp(module: str = "") -> Any:
    # Its log would print server output on the terminal; the failure has the cause.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    try:
        return importlib.import_module(f"mcp.{module}".rstrip("."))
    except ImportError as error:
        raise DataError(f"mcp is not installed ({error}); {INSTALL}") from error

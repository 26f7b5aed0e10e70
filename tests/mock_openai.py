"""An OpenAI-shaped server on 127.0.0.1 for tests: true to the protocol, faulty on demand.

    async with MockOpenAI(answer_with(model)) as server:
        config = OpenAIChatConfig(model="m", base_url=server.base_url, api_key=server.api_key)
        server.next(status(429, retry_after="2"), reset())  # the next two requests fail

A handler is ``async (body) -> dict | str | web.StreamResponse``; a string becomes the text of an
answer. Nothing here sleeps: `MockOpenAI.until` waits for a state, and `hold` for an event.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from aiohttp import web

from skillwright.core import ChatModel, Purpose, Sampling

Answer = dict[str, Any] | str | web.StreamResponse
Handler = Callable[[dict[str, Any]], Awaitable[Answer]]
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class MockOpenAI:
    """The server. It records what it was asked and how much of it at once.

    Args:
        handler: Answers a valid request; by default with the text ``ok``.
        api_key: What the ``Authorization`` header must carry; ``None`` lets everybody in.

    Attributes:
        bodies: The JSON of every request to the chat route, faulty ones included, in order.
        headers: Their headers.
        in_flight: Requests being answered now; a client that leaves is no longer counted.
        most_in_flight: The highest value of ``in_flight`` so far.
        connections: The client's ends of all connections that brought a request.
    """

    def __init__(self, handler: Handler | None = None, api_key: str | None = "sk-mock") -> None:
        self.handler = handler or _say_ok
        self.api_key = api_key
        self.base_url = ""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.connections: set[object] = set()
        self._faults: deque[Fault] = deque()
        self._changed = asyncio.Condition()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", _list_models)
        app.router.add_route("*", "/{path:.*}", _not_found)
        # Cancelled handlers are how a test sees that a client left no request behind.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._runner.cleanup()

    def next(self, *faults: Fault) -> None:
        """Let the next requests meet these faults, one each, before healthy service resumes."""
        self._faults.extend(faults)

    def heal(self) -> None:
        """Forget the faults that no request has met yet."""
        self._faults.clear()

    async def until(self, claim: Callable[["MockOpenAI"], bool]) -> None:
        """Wait until something is true of this server, for at most 5 seconds."""
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: claim(self))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await self._count(1)
        try:
            body = await request.json()
            self.bodies.append(body)
            self.headers.append(request.headers)
            if request.transport is not None:
                self.connections.add(request.transport.get_extra_info("peername"))
            if self._faults:
                response = await self._faults.popleft()(request)
                if response is not None:
                    return response
            return self._refusal(request, body) or await self._answer(body)
        finally:
            await asyncio.shield(self._count(-1))

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.in_flight += change
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self._changed.notify_all()

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        sent = request.headers.get("Authorization", "")
        if self.api_key is not None and sent != f"Bearer {self.api_key}":
            # It repeats the key, as careless servers do.
            return error(401, f"Incorrect API key provided: {sent}", code="invalid_api_key")
        if not isinstance(body.get("model"), str):
            return error(400, "you must provide a model parameter", param="model")
        messages = body.get("messages")
        if not messages or any("role" not in m or "content" not in m for m in messages):
            return error(400, "every message needs a role and content", param="messages")
        return None

    async def _answer(self, body: dict[str, Any]) -> web.StreamResponse:
        answer = await self.handler(body)
        if isinstance(answer, str):
            answer = completion(answer, model=body["model"])
        return web.json_response(answer) if isinstance(answer, dict) else answer


class FaultyOpenAI(MockOpenAI):
    """Fails every fifth question to each model, when it comes for the first time.

    Args:
        handler: As in `MockOpenAI`.
        faults: The kinds of faults by name; they take turns.

    Attributes:
        is_healthy: It fails none.
        failed: How often each kind of fault was met, by model and kind.
    """

    def __init__(self, handler: Handler, faults: Mapping[str, Fault]) -> None:
        super().__init__(handler)
        self.is_healthy = False
        self.failed: Counter[tuple[str, str]] = Counter()
        self._faults_by_kind = dict(faults)
        self._plan: dict[str, str | None] = {}
        self._questions: Counter[str] = Counter()

    def fault_for(self, body: str) -> str | None:
        """Name the fault that a request is about to meet, or ``None``."""
        if self.is_healthy:
            return None
        if body not in self._plan:
            model = json.loads(body)["model"]
            self._questions[model] += 1
            turn, rest = divmod(self._questions[model], 5)
            kinds = list(self._faults_by_kind)
            self._plan[body] = None if rest else kinds[turn % len(kinds)]
        return self._plan[body]

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        kind = self.fault_for(body)
        if kind is not None:
            self._plan[body] = None
            self.failed[json.loads(body)["model"], kind] += 1
            response = await self._faults_by_kind[kind](request)
            if response is not None:
                return response
        return await super()._chat(request)


def line_faults() -> dict[str, Fault]:
    """Return all faults of a line that pass by themselves, but for an answer that never comes."""
    return {
        "rate limit": status(429, retry_after="0"),
        "server error": status(500),
        "reset": reset(),
        "half an answer": truncated(),
        "no choice": empty_choices(),
    }


def completion(text: Any, *, model: str = "mock-1", **message: Any) -> dict[str, Any]:
    """Build a chat completion. ``finish_reason`` and ``usage`` are taken out of ``message``."""
    finish_reason = message.pop("finish_reason", "stop")
    words = len(str(text or "").split())
    usage = {"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words}
    usage = message.pop("usage", usage)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": usage,
    }


def answer_with(llms: ChatModel | Mapping[str, ChatModel]) -> Handler:
    """Put models behind HTTP: one for every model name, or one per name."""

    async def handler(body: dict[str, Any]) -> Answer:
        llm = llms[body["model"]] if isinstance(llms, Mapping) else llms
        sampling = Sampling(
            temperature=body.get("temperature"),
            top_p=body.get("top_p"),
            max_tokens=body.get("max_tokens"),
            seed=body.get("seed"),
            stop=tuple(body.get("stop", ())),
        )
        said = await llm.complete(
            body["messages"],
            tools=body.get("tools", ()),
            sampling=sampling,
            purpose=Purpose.ROLLOUT,
        )
        return completion(
            said.text,
            model=body["model"],
            finish_reason=said.finish_reason,
            usage={
                "prompt_tokens": said.usage.input_tokens,
                "completion_tokens": said.usage.output_tokens,
            },
        )

    return handler


def replies(*answers: Answer) -> Handler:
    """Answer with these, in order."""
    left = deque(answers)

    async def handler(body: dict[str, Any]) -> Answer:
        del body
        return left.popleft()

    return handler


def error(
    status_code: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | int | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Build an error response in OpenAI's form."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return web.json_response(body, status=status_code, headers=headers)


def status(status_code: int, message: str = "no", **fields: Any) -> Fault:
    """Fail with a status; ``retry_after`` sets the header, the rest is as in `error`."""
    retry_after = fields.pop("retry_after", None)
    headers = {"Retry-After": retry_after} if retry_after else None

    async def fault(request: web.Request) -> web.StreamResponse:
        del request
        return error(status_code, message, headers=headers, **fields)

    return fault


def raw(body: bytes, content_type: str = "application/json", status_code: int = 200) -> Fault:
    """Answer with these bytes."""

    async def fault(request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(body=body, content_type=content_type, status=status_code)

    return fault


def reset() -> Fault:
    """Drop the connection without an answer."""

    async def fault(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return fault


def truncated() -> Fault:
    """Promise a whole answer, send half of it, and drop the connection."""

    async def fault(request: web.Request) -> web.StreamResponse:
        body = json.dumps(completion("ok")).encode()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    return fault


def empty_choices() -> Fault:
    """Answer 200 with no choice in it."""
    return raw(json.dumps({**completion("ok"), "choices": []}).encode())


def hold(until: asyncio.Event) -> Fault:
    """Wait for an event before running."""

    async def fault(request: web.Request) -> web.StreamResponse | None:
        del request
        await until.wait()
        return None

    return fault


async def _say_ok(body: dict[str, Any]) -> Answer:
    del body
    return "ok"


async def _list_models(request: web.Request) -> web.Response:
    del request
    return web.json_response({"object": "list", "data": [{"id": "mock-1", "object": "model"}]})


async def _not_found(request: web.Request) -> web.Response:
    return error(404, f"Invalid URL ({request.method} {request.path})")

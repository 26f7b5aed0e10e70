"""An Anthropic-shaped server on 127.0.0.1 for tests: as strict as the API about what it is sent.

    async with MockAnthropic() as server:
        config = ClaudeChatConfig(model="m", base_url=server.base_url, api_key=server.api_key)

A handler is ``async (body) -> dict | str``; a string becomes the text of a message.
"""

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from mock_endpoint import Body, Handler, MockEndpoint
from mock_openai import Fault
from skillwright.core import ChatModel, Purpose, Sampling

_KNOWN = {
    *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stop_sequences"),
    *("temperature", "top_p", "top_k", "thinking", "output_config", "metadata", "stream"),
    *("service_tier", "cache_control"),
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class MockAnthropic(MockEndpoint):
    """The messages route."""

    route = "/v1/messages"

    def error(self, status: int, message: str, **fields: Any) -> web.Response:
        """Build an error; ``details`` and ``headers`` are optional."""
        return error(status, message, **fields)

    def refusal(self, request: web.Request, body: Body) -> web.Response | None:
        """Refuse as the API does."""
        sent = request.headers
        if "anthropic-version" not in sent:
            return error(400, "anthropic-version: header is required")
        if ("x-api-key" in sent) + ("Authorization" in sent) != (self.api_key is not None):
            return error(401, "exactly one of x-api-key and Authorization is required")
        shown = sent.get("x-api-key") or sent.get("Authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and shown != self.api_key:
            return error(401, f"invalid x-api-key: {shown}")
        problem = next(_problems(body), None)
        return error(400, problem) if problem else None

    async def respond(self, request: web.Request, body: Body, answer: Any) -> web.StreamResponse:
        """Send a message, whole or as events."""
        payload = message(answer, model=body["model"]) if isinstance(answer, str) else answer
        if not body.get("stream"):
            return web.json_response(payload, headers={"request-id": "req_1"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events(payload):
            line = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            await response.write(line.encode())
        return response


def message(text: str | None = None, *content: Body, **fields: Any) -> Body:
    """Build a message; ``text`` becomes its last block."""
    blocks = [*content, *([{"type": "text", "text": text}] if text is not None else [])]
    usage = {
        "input_tokens": 10,
        "output_tokens": 2,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-mock",
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
        **fields,
    }


def answer_with(llms: ChatModel | Mapping[str, ChatModel]) -> Handler:
    """Put models behind HTTP: one for every model name, or one per name.

    A model sees the words of a conversation, the system text first; the route carries no seeds.
    """

    async def handler(body: Body) -> Body:
        llm = llms[body["model"]] if isinstance(llms, Mapping) else llms
        system = [{"role": "system", "content": _words(body["system"])}] if "system" in body else []
        turns = [
            {"role": one["role"], "content": _words(one["content"])} for one in body["messages"]
        ]
        sampling = Sampling(max_tokens=body["max_tokens"])
        said = await llm.complete([*system, *turns], sampling=sampling, purpose=Purpose.ROLLOUT)
        usage = {
            "input_tokens": said.usage.input_tokens,
            "output_tokens": said.usage.output_tokens,
        }
        stop = "max_tokens" if said.finish_reason == "length" else "end_turn"
        return message(said.text or None, model=body["model"], stop_reason=stop, usage=usage)

    return handler


def events(payload: Body) -> list[Body]:
    """Cut a message into the events of a stream."""
    start = {**payload, "content": [], "stop_reason": None}
    found: list[Body] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(payload["content"]):
        found += _block_events(index, block)
    ending = {"stop_reason": payload["stop_reason"], "stop_sequence": None}
    found.append({"type": "message_delta", "delta": ending, "usage": payload["usage"]})
    return [*found, {"type": "message_stop"}]


def error(
    status: int, words: str, details: Body | None = None, headers: Body | None = None
) -> web.Response:
    """Build an error response in Anthropic's form."""
    told: Body = {"type": _TYPES[status], "message": words}
    if details:
        told["details"] = details
    body = {"type": "error", "error": told, "request_id": "req_1"}
    return web.json_response(
        body, status=status, headers={"request-id": "req_1", **(headers or {})}
    )


def claude_status(status: int, words: str = "no", **fields: Any) -> Fault:
    """Fail with a status."""

    async def fault(request: web.Request) -> web.StreamResponse:
        del request
        return error(status, words, **fields)

    return fault


def _words(content: str | list[Body]) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(block["text"] for block in content if block["type"] == "text")


def _block_events(index: int, block: Body) -> Iterable[Body]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
    deltas: list[Body] = []
    if kind == "text":
        half = len(block["text"]) // 2
        deltas = [
            {"type": "text_delta", "text": part}
            for part in (block["text"][:half], block["text"][half:])
        ]
    elif kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    elif kind == "tool_use":
        empty["tool_use"] = {"id": block["id"], "name": block["name"], "input": {}}
        written = json.dumps(block["input"])
        deltas = [
            {"type": "input_json_delta", "partial_json": part}
            for part in ("", written[:5], written[5:])
        ]
    opened = {"type": kind, **empty[kind]}
    yield {"type": "content_block_start", "index": index, "content_block": opened}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _problems(body: Body) -> Iterable[str]:
    for name in body.keys() - _KNOWN:
        yield f"{name}: Extra inputs are not permitted"
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            yield f"{name}: Field required"
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    if budget >= body["max_tokens"]:
        yield "max_tokens must be greater than thinking.budget_tokens"
    turns = body["messages"]
    if not turns or turns[0]["role"] != "user":
        yield "messages: first message must use the user role"
    if any(turn["role"] not in ("user", "assistant") for turn in turns):
        yield "messages: role must be user or assistant"
    if any(one["role"] == two["role"] for one, two in itertools.pairwise(turns)):
        yield "messages: roles must alternate"
    yield from _block_problems(body, turns)
    yield from _tool_problems(turns)


def _block_problems(body: Body, turns: list[Body]) -> Iterable[str]:
    blocks = [
        block for turn in turns if isinstance(turn["content"], list) for block in turn["content"]
    ]
    if any(turn["content"] in ("", []) for turn in turns):
        yield "messages: content must not be empty"
    if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
        yield "messages: text content blocks must be non-empty"
    system = body.get("system", [])
    marked = [*(system if isinstance(system, list) else ()), *body.get("tools", ()), *blocks]
    if sum("cache_control" in block for block in marked) > 4:
        yield "cache_control: at most 4 blocks"
    if any(tool["input_schema"].get("type") != "object" for tool in body.get("tools", ())):
        yield "tools: input_schema.type must be object"
    if any(not stop.strip() for stop in body.get("stop_sequences", ())):
        yield "stop_sequences: must contain non-whitespace"


def _tool_problems(turns: list[Body]) -> Iterable[str]:
    for turn, following in zip(turns, [*turns[1:], {"content": []}], strict=True):
        if turn["role"] != "assistant" or isinstance(turn["content"], str):
            continue
        asked = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
        answers = following["content"][: len(asked)]
        if asked != [block.get("tool_use_id") for block in answers]:
            yield "messages: tool_use ids were found without tool_result blocks right after"

"""A server on 127.0.0.1 that speaks OpenAI's responses, as strict as the API about its input."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from mock_endpoint import Body, Handler, MockEndpoint
from mock_openai import error
from skillwright.core import ChatModel, Purpose, Sampling

_KNOWN = {
    *("model", "input", "instructions", "tools", "tool_choice", "temperature", "top_p", "store"),
    *("max_output_tokens", "reasoning", "text", "include", "top_logprobs", "metadata", "stream"),
}


class MockResponses(MockEndpoint):
    """The responses route; ``base_url`` ends with ``/v1`` once it runs."""

    route = "/v1/responses"

    async def __aenter__(self) -> "MockResponses":
        await super().__aenter__()
        self.base_url += "/v1"
        return self

    def error(self, status: int, message: str, **fields: Any) -> web.Response:
        """Build an error in OpenAI's form."""
        return error(status, message, **fields)

    def refusal(self, request: web.Request, body: Body) -> web.Response | None:
        """Refuse as the API does."""
        if request.headers.get("Authorization") != f"Bearer {self.api_key}":
            return error(401, "Incorrect API key provided", code="invalid_api_key")
        unknown = sorted(body.keys() - _KNOWN)
        if unknown:
            return error(400, f"Unknown parameter: '{unknown[0]}'.", param=unknown[0])
        items = body["input"] if isinstance(body["input"], list) else []
        asked = {item["call_id"] for item in items if item.get("type") == "function_call"}
        told = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
        if asked != told:
            return error(400, "No tool output found for function call", param="input")
        return None

    async def respond(self, request: web.Request, body: Body, answer: Any) -> web.StreamResponse:
        """Send a response."""
        del request
        payload = response(say(answer), model=body["model"]) if isinstance(answer, str) else answer
        return web.json_response(payload)


def answer_with(llms: ChatModel | Mapping[str, ChatModel]) -> Handler:
    """Put models behind HTTP: one for every model name, or one per name; it carries no seeds."""

    async def handler(body: Body) -> Body:
        llm = llms[body["model"]] if isinstance(llms, Mapping) else llms
        sampling = Sampling(max_tokens=body.get("max_output_tokens"))
        said = await llm.complete(body["input"], sampling=sampling, purpose=Purpose.ROLLOUT)
        cut = {"reason": "max_output_tokens"} if said.finish_reason == "length" else None
        return response(
            say(said.text),
            model=body["model"],
            status="incomplete" if cut else "completed",
            incomplete_details=cut,
        )

    return handler


def say(text: str) -> Body:
    """Build a message item."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def response(*output: Body, **fields: Any) -> Body:
    """Build a response of these items."""
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "mock-1",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": usage,
        **fields,
    }

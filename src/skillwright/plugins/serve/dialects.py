"""Client formats: OpenAI's chat completions, and Anthropic's messages.

Requests change only where a skill is injected; unknown fields stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from skillwright.bank import category_of
from skillwright.core import Completion, Message, Task
from skillwright.core.jsonio import dumps
from skillwright.models import ClaudeChatConfig, EndpointConfig, OpenAIChatConfig, dialect_of
from skillwright.models.http.client import Events, decode
from skillwright.models.http.wire import mapping, sequence, text
from skillwright.rollout import PromptStyle, render

Body = dict[str, Any]
Content = str | list[Any] | None

_MOST_LINES: Final = 200
_WHATEVER: Final = "what the client names"
SYSTEM: Final = frozenset({"system", "developer"})


class ClientDialect(Protocol):
    """The format of a vendor's clients."""

    def conversation(self, body: Body) -> tuple[Message, ...]:
        """Return the conversation so far as messages, the system text first."""

    def with_skill(self, body: Body, skill: str) -> Body:
        """Return the request with a skill in its system text."""

    def completion(self, answer: bytes, *, streamed: bool) -> Completion:
        """Read an answer; a `ModelError` or `ValueError` says that it is incomplete or no JSON."""

    def error(self, status: int, message: str) -> Body:
        """Return an error in the vendor's format."""


class _Reading:
    """Reads answers with the models' own dialect."""

    _config: EndpointConfig

    @cached_property
    def _dialect(self) -> Any:
        return dialect_of(self._config)

    def completion(self, answer: bytes, *, streamed: bool) -> Completion:
        """Read an answer; see `ClientDialect`."""
        read: Completion = self._dialect.completion(
            Events(answer) if streamed else decode(answer), {}
        )
        return read


class OpenAIClients(_Reading):
    """Chat completions."""

    _config = OpenAIChatConfig(model=_WHATEVER)

    def conversation(self, body: Body) -> tuple[Message, ...]:
        """Return what was said so far; see `ClientDialect`."""
        return tuple(map(_openai_message, map(mapping, sequence(body.get("messages")))))

    def with_skill(self, body: Body, skill: str) -> Body:
        """Return the request with a skill in its first system message, added if missing."""
        messages = sequence(body.get("messages"))
        for index, message in enumerate(messages):
            if str(mapping(message).get("role")) in SYSTEM:
                extended = {**message, "content": _extended(message.get("content"), skill)}
                return {**body, "messages": [*messages[:index], extended, *messages[index + 1 :]]}
        return {
            **body,
            "messages": [{"role": "system", "content": _extended(None, skill)}, *messages],
        }

    def error(self, status: int, message: str) -> Body:
        """Return an error; see `ClientDialect`."""
        kind = "invalid_request_error" if status < 429 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class AnthropicClients(_Reading):
    """Messages."""

    _config = ClaudeChatConfig(model=_WHATEVER)
    _kinds: Final[Mapping[int, str]] = {
        401: "authentication_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
    }

    def conversation(self, body: Body) -> tuple[Message, ...]:
        """Return what was said so far; see `ClientDialect`."""
        system = text(body.get("system"))
        start = [Message(role="system", content=system)] if system else []
        turns = map(mapping, sequence(body.get("messages")))
        return (*start, *(message for turn in turns for message in _anthropic_messages(turn)))

    def with_skill(self, body: Body, skill: str) -> Body:
        """Return the request with a skill after its system text."""
        return {**body, "system": _extended(body.get("system"), skill)}

    def error(self, status: int, message: str) -> Body:
        """Return an error; see `ClientDialect`."""
        kind = self._kinds.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


OPENAI, ANTHROPIC = OpenAIClients(), AnthropicClients()
DIALECTS: Final[Mapping[str, ClientDialect]] = {
    "/v1/chat/completions": OPENAI,
    "/v1/messages": ANTHROPIC,
}
"""Dialects by the route of conversations."""


def last_user_text(messages: Sequence[Message]) -> str:
    """Return the user's last text, or ""."""
    said = (one["content"] for one in reversed(messages) if one["role"] == "user")
    return next(filter(None, said), "")


def category_in(said: str, env: str) -> str:
    """Return the category of the first line that an environment's rules recognize, or ""."""
    if not env:
        return ""
    tasks = (Task("said", env, description=line) for line in said.splitlines()[:_MOST_LINES])
    return next(filter(None, map(category_of, tasks)), "")


def _extended(content: Content, skill: str) -> Content:
    """Append a skill to a system text or its blocks, as rollouts do; cache marks stay."""
    if not isinstance(content, list):
        system = [Message(role="system", content=content)] if content else []
        return render(PromptStyle(), system, (), skill)[0]["content"]
    (section,) = render(PromptStyle(), (), (), skill)
    return [*content, {"type": "text", "text": section["content"]}]


def _openai_message(sent: Mapping[str, Any]) -> Message:
    message = Message(role=str(sent.get("role") or ""), content=text(sent.get("content")))
    if calls := sequence(sent.get("tool_calls")):
        message["tool_calls"] = [_call(mapping(one)) for one in calls]
    if call_id := sent.get("tool_call_id"):
        message["tool_call_id"] = str(call_id)
    return message


def _call(sent: Mapping[str, Any]) -> dict[str, Any]:
    function = mapping(sent.get("function"))
    named = {"name": str(function.get("name") or ""), "arguments": str(function.get("arguments"))}
    return {"id": str(sent.get("id") or ""), "type": "function", "function": named}


def _anthropic_messages(turn: Mapping[str, Any]) -> Iterator[Message]:
    """Split a turn into tool results, one message each, and the remaining text."""
    content = turn.get("content")
    blocks = [mapping(block) for block in sequence(content)]
    for block in blocks:
        if block.get("type") == "tool_result":
            call_id = str(block.get("tool_use_id") or "")
            result = text(block.get("content"))
            yield Message(role="tool", content=result, tool_call_id=call_id)
    calls = [
        {
            "id": str(block.get("id") or ""),
            "type": "function",
            "function": {"name": str(block.get("name")), "arguments": dumps(block.get("input"))},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    said = text([block for block in blocks if block.get("type") == "text"] if blocks else content)
    if said or calls or not blocks:
        message = Message(role=str(turn.get("role") or ""), content=said)
        if calls:
            message["tool_calls"] = calls
        yield message

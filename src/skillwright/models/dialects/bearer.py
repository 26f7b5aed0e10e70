"""What all dialects of chat completions share: most of a request, and how replies are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Completion, Message, ModelError, Sampling
from skillwright.models.dialects.chat_reply import read_answer
from skillwright.models.dialects.openai_errors import fault_of_reply
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint import Config, Dialect, chosen
from skillwright.models.http.wire import without_none


@dataclass(frozen=True, slots=True)
class ChatDialect(Dialect[Config]):
    """Chat completions, whose requests differ more from server to server than the replies."""

    def chat_request(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        sampling: Sampling,
        fields: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Put a call into JSON that every server understands."""
        config, schema = self.config, sampling.json_schema
        decoding = {name: chosen(name, sampling, config) for name in ("temperature", "top_p")}
        reply = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
        form = {"type": "json_schema", "json_schema": reply}
        optional = {
            "stop": list(sampling.stop) or None,
            "tools": list(tools) or None,
            "logprobs": None if sampling.logprobs is None else True,
            "top_logprobs": sampling.logprobs,
            "response_format": None if schema is None else form,
            **fields,
            **without_none(decoding),
        }
        return {
            "model": config.model,
            "messages": [_written(message, config.backend) for message in messages],
            **without_none(optional),
            **config.extra_body,
        }

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error that a reply is, or ``None``."""
        return fault_of_reply(reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; see `skillwright.models.dialects.chat_reply.to_completion`."""
        del request
        return read_answer(payload, self.config)


def stream_fields(stream: bool) -> dict[str, Any]:
    """Return the fields that ask for a stream with its usage, or none."""
    return {"stream": True, "stream_options": {"include_usage": True}} if stream else {}


def is_strict(schema: Any) -> bool:
    """Tell whether a JSON Schema is closed everywhere, as OpenAI's strict mode demands."""
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return all(map(is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if "properties" in schema or schema.get("type") == "object":
        required = set(schema.get("required", ()))
        if schema.get("additionalProperties") is not False:
            return False
        if required != set(schema.get("properties", {})):
            return False
    return all(map(is_strict, schema.values()))


def _written(message: Message, dialect: str) -> Mapping[str, Any]:
    if "native" not in message:
        return message
    native = message["native"]
    plain: dict[str, Any] = {name: value for name, value in message.items() if name != "native"}
    if native.get("dialect") != dialect:
        return plain
    calls = message.get("tool_calls") or ()
    signed = zip(calls, native.get("calls") or (), strict=False)  # those not answered are gone
    if extended := [{**call, **extra} for call, extra in signed]:
        plain["tool_calls"] = extended
    return {**plain, **native["content"]}

"""The dialect of OpenAI's chat completions, which most servers speak in some form.

Source: OpenAI API reference, "Chat Completions"; vLLM, SGLang, DeepSeek, OpenRouter, MiniMax and
Qwen for where their reasoning text stands.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Completion, Message, ModelError, Sampling
from skillwright.models.dialects.bearer import BearerDialect
from skillwright.models.dialects.chat_reply import join_events, to_completion
from skillwright.models.dialects.openai_config import OpenAIChatConfig
from skillwright.models.dialects.openai_errors import fault_of_reply
from skillwright.models.dialects.openai_models import refuse_what_the_model_refuses
from skillwright.models.http.client import HttpReply, is_stream
from skillwright.models.http.endpoint import bearer, chosen

logger = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN = 12  # no ordinary text has more
# What is left open, vLLM takes from a file beside the weights: then a score hangs on that as well.
_VLLM_DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}


@dataclass(frozen=True, slots=True)
class OpenAIDialect(BearerDialect[OpenAIChatConfig]):
    """What both of OpenAI's routes share."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key: Azure's own, or a bearer token."""
        config = self.config
        kind = config.served_by.key_header if config.key_header == "auto" else config.key_header
        return {"api-key": key} if key and kind == "api-key" else bearer(key)


@dataclass(frozen=True, slots=True)
class OpenAIChat(OpenAIDialect):
    """OpenAI's chat completions, with the habits of the server that the settings name."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Put a call into JSON; see `skillwright.models.http.endpoint.Dialect`."""
        config = self.config
        refuse_what_the_model_refuses(config, tools=bool(tools))
        name = config.max_tokens_name
        limit_name = config.served_by.max_tokens_name if name == "auto" else name
        defaults = _VLLM_DEFAULTS if config.served_by.name == "vllm" else {}
        optional = {
            **defaults,
            **_set(
                temperature=chosen("temperature", sampling, config),
                top_p=chosen("top_p", sampling, config),
            ),
            limit_name: chosen("max_tokens", sampling, config),
            "seed": sampling.seed if config.send_seed else None,
            **_effort(config),
            **stream_fields(config.stream),
        }
        return chat_request(config.model, messages, tools, sampling, optional, config.backend) | (
            config.extra_body
        )

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error that a reply is, or ``None``."""
        return fault_of_reply(reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; see `skillwright.models.dialects.chat_reply.to_completion`."""
        if is_stream(payload):
            payload = join_events(payload, self.config)
        answer = to_completion(payload, self.config)
        if self.config.served_by.name == "ollama":
            _warn_of_a_cut_prompt(answer, request)
        return answer


def chat_request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    sampling: Sampling,
    optional: Mapping[str, Any],
    dialect: str,
) -> dict[str, Any]:
    """Build a request that every server understands; of ``optional``, what is ``None`` is left out.

    Args:
        model: Its name.
        messages: The conversation.
        tools: In OpenAI's form.
        sampling: Its stops, logprobs and schema.
        optional: What dialects write in their own ways.
        dialect: Whose native messages are sent as they are.
    """
    fields = {
        "stop": list(sampling.stop) or None,
        "tools": list(tools) or None,
        **optional,
        **_logprobs(sampling),
        **_response_format(sampling),
    }
    return {
        "model": model,
        "messages": [_written(message, dialect) for message in messages],
        **{name: value for name, value in fields.items() if value is not None},
    }


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


def _set(**settings: float | None) -> dict[str, float]:
    return {name: value for name, value in settings.items() if value is not None}


def _effort(config: OpenAIChatConfig) -> dict[str, Any]:
    if config.reasoning_effort and config.served_by.nested_effort:
        return {"reasoning": {"effort": config.reasoning_effort}}
    return {"reasoning_effort": config.reasoning_effort}


def _logprobs(sampling: Sampling) -> dict[str, Any]:
    if sampling.logprobs is None:
        return {}
    return {"logprobs": True, "top_logprobs": sampling.logprobs}


def _response_format(sampling: Sampling) -> dict[str, Any]:
    schema = sampling.json_schema
    if schema is None:
        return {}
    form = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _warn_of_a_cut_prompt(answer: Completion, request: Mapping[str, Any]) -> None:
    """Ollama cuts prompts over its window without a word; the count of tokens gives it away."""
    sent = sum(len(message.get("content") or "") for message in request["messages"])
    if 0 < _CHARACTERS_PER_TOKEN * answer.usage.input_tokens < sent:
        logger.warning(
            "Ollama counted %d prompt tokens in %d characters, so it cut the conversation. "
            "Raise OLLAMA_CONTEXT_LENGTH, or num_ctx of model %r.",
            answer.usage.input_tokens,
            sent,
            answer.model,
        )

"""The OpenAI chat-completions dialect: a pure pair of functions, and the model that uses them.

Source: OpenAI API reference, "Chat Completions"; vLLM, SGLang, DeepSeek, OpenRouter, MiniMax and
Qwen for where their reasoning text stands.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillwright.core import (
    Completion,
    ConfigError,
    Message,
    Purpose,
    ReplyInvalid,
    Sampling,
    ToolCall,
    Usage,
)
from skillwright.core.jsonio import digest, dumps
from skillwright.models.config import OpenAIChatConfig
from skillwright.models.http import HttpClient, encode
from skillwright.models.openai_errors import error_of, holds_error
from skillwright.models.retry import Retry

_NEEDS_KEY = "api.openai.com"
_NEW_LIMIT_NAME = ("api.openai.com", ".openai.azure.com")
_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


class OpenAIChat:
    """A model behind any endpoint that speaks OpenAI chat completions.

    Args:
        config: Which model, where, and how.
        client: The shared HTTP client; its ``limits`` bound the calls to this endpoint and key.
        sleep: Waits between attempts.
        clock: Seconds that only go forward, for the deadline.

    Raises:
        ConfigError: OpenAI itself is asked and no key is there, or the key cannot be sent.
    """

    def __init__(
        self,
        config: OpenAIChatConfig,
        client: HttpClient,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._client = client
        self._key = find_key(config)
        self._headers = dict(config.headers)
        if self._key:
            self._headers["Authorization"] = f"Bearer {self._key}"
        self._limiter = client.limits.limiter(config.base_url, self._key, config.max_concurrent)
        self._retry = Retry(
            max_attempts=config.max_attempts,
            timeout_s=config.timeout_s,
            deadline_s=config.deadline_s,
            sleep=sleep,
            clock=clock,
        )
        self._identity = identity_of(config)

    @property
    def identity(self) -> str:
        """``openai_chat:{model}@{host}#{digest of the settings that change answers}``."""
        return self._identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer a conversation, with retries; ``failed_calls`` counts the attempts that failed.

        Raises:
            EndpointFault: The endpoint failed at every attempt.
            ModelTimeout: The last attempt, or the whole call, ran out of time.
            ModelRefused: The endpoint refuses the key, the model name or the request.
            ContextOverflow: The conversation does not fit the model's window.
            ReplyInvalid: The reply has no answer in it.
        """
        del purpose  # an endpoint answers alike whatever it is asked for
        body = encode(to_request(messages, tools, sampling, self._config))

        async def attempt(timeout_s: float) -> Completion:
            reply = await self._client.post_json(
                self._config.url, body, headers=self._headers, timeout_s=timeout_s
            )
            if holds_error(reply):
                raise error_of(reply, self._config, self._key)
            return to_completion(reply.payload, self._config)

        # The deadline's clock starts inside the slot: queueing is not slowness. A call keeps its
        # slot while it waits to try again, so a busy endpoint is asked for less.
        async with self._limiter.slot():
            completion, failed = await self._retry.call(attempt)
        if not failed:
            return completion
        return replace(completion, usage=replace(completion.usage, failed_calls=failed))


def find_key(config: OpenAIChatConfig) -> str:
    """Find an endpoint's key: the one in the settings, else the variable that they name.

    Returns:
        ``""`` where there is none and the endpoint may do without.

    Raises:
        ConfigError: OpenAI itself is asked and no key is there, or the key holds characters that
            no HTTP header can carry.
    """
    given = config.api_key.get_secret_value() if config.api_key else ""
    key = (given or os.environ.get(config.api_key_env, "")).strip()
    if not key and config.host == _NEEDS_KEY:
        raise ConfigError(
            f"model {config.model!r} is at {config.base_url} and needs a key: set the environment "
            f"variable {config.api_key_env}, name another in api_key_env, or set base_url to a "
            "server of your own, which needs none"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in {config.api_key_env} holds a line break or a character that HTTP headers "
            "cannot carry; copy it again"
        )
    return key


def identity_of(config: OpenAIChatConfig) -> str:
    """Name a model by all that can change its answers, and nothing secret."""
    matters = config.model_dump(
        mode="json",
        include={
            "base_url",
            "temperature",
            "top_p",
            "max_tokens",
            "send_seed",
            "reasoning_effort",
            "extra_body",
        },
    )
    return f"openai_chat:{config.model}@{config.host}#{digest(matters)[:12]}"


def to_request(
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    sampling: Sampling,
    config: OpenAIChatConfig,
) -> dict[str, Any]:
    """Put a call into the dialect's JSON. What ``sampling`` leaves open, ``config`` decides."""

    def chosen(name: str) -> Any:
        asked = getattr(sampling, name)
        return getattr(config, name) if asked is None else asked

    optional = {
        "temperature": chosen("temperature"),
        "top_p": chosen("top_p"),
        _limit_name(config): chosen("max_tokens"),
        "seed": sampling.seed if config.send_seed else None,
        "stop": list(sampling.stop) or None,
        "reasoning_effort": config.reasoning_effort,
        "tools": list(tools) or None,
    }
    return {
        "model": config.model,
        "messages": list(messages),
        **{name: value for name, value in optional.items() if value is not None},
        **config.extra_body,
    }


def to_completion(payload: Any, config: OpenAIChatConfig) -> Completion:
    """Read an answer out of the dialect's JSON. Unknown keys and values are ignored.

    A structured refusal becomes the text, with finish reason ``content_filter``.

    Raises:
        ReplyInvalid: There is no choice or no message in it.
    """
    payload = _mapping(payload)
    choice = _first_choice(payload, config)
    message = _mapping(choice.get("message"))
    finish = str(choice.get("finish_reason"))
    text, reasoning = _split_reasoning(message, cut_off=finish == "length")
    refusal = message.get("refusal")
    if refusal and not text:
        text, finish = str(refusal), "content_filter"
    return Completion(
        text=text,
        finish_reason=finish if finish in _FINISH_REASONS else "other",
        model=str(payload.get("model") or config.model),
        usage=_usage(payload.get("usage"), config),
        tool_calls=_tool_calls(message.get("tool_calls")),
        reasoning=reasoning,
    )


def _limit_name(config: OpenAIChatConfig) -> str:
    if config.max_tokens_name != "auto":
        return config.max_tokens_name
    # Most other servers know only the old name, which newer OpenAI models refuse.
    return "max_completion_tokens" if config.host.endswith(_NEW_LIMIT_NAME) else "max_tokens"


def _first_choice(payload: Mapping[str, Any], config: OpenAIChatConfig) -> Mapping[str, Any]:
    choices = [_mapping(choice) for choice in _sequence(payload.get("choices"))]
    if not choices or not _mapping(choices[0].get("message")):
        raise ReplyInvalid(
            f"{config.url} answered without a choice for model {config.model!r} "
            f"(keys: {', '.join(payload) or 'none'}). Look at the server's log, and check that "
            "base_url speaks OpenAI chat completions."
        )
    return min(choices, key=lambda choice: _count(choice.get("index")))


def _split_reasoning(message: Mapping[str, Any], *, cut_off: bool) -> tuple[str, str]:
    """Separate the visible answer from reasoning, wherever the server has put that."""
    text = _text(message.get("content"))
    details = _text(message.get("reasoning_details"))
    for shown in (message.get("reasoning"), message.get("reasoning_content"), details):
        if shown and isinstance(shown, str):
            return text, shown
    head, closed, tail = text.partition("</think>")
    opened = head.lstrip().startswith("<think>")
    head = head.lstrip().removeprefix("<think>")
    # The opening tag may be missing: some chat templates write it at the end of the prompt.
    if closed and (opened or "<think>" not in head):
        return tail.lstrip(), head.strip()
    if opened and cut_off:
        return "", head.strip()  # the token limit fell into the reasoning
    return text, ""


def _text(content: Any) -> str:
    """Return content that is a string, null, or a list of parts with ``text``."""
    if isinstance(content, str):
        return content
    parts = (_mapping(part).get("text") for part in _sequence(content))
    return "".join(part for part in parts if isinstance(part, str))


def _tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    read = []
    for index, call in enumerate(map(_mapping, _sequence(calls))):
        function = _mapping(call.get("function"))
        arguments = function.get("arguments") or ""
        read.append(
            ToolCall(
                id=str(call.get("id") or f"call_{index}"),
                name=str(function.get("name") or ""),
                # Some servers send the object itself and not its JSON text.
                arguments=arguments if isinstance(arguments, str) else dumps(arguments),
            )
        )
    return tuple(read)


def _usage(counts: Any, config: OpenAIChatConfig) -> Usage:
    counts = _mapping(counts)
    details = _mapping(counts.get("prompt_tokens_details"))
    input_tokens = _count(counts.get("prompt_tokens"))
    usage = Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=_count(counts.get("completion_tokens")),
        cached_tokens=min(input_tokens, _count(details.get("cached_tokens"))),
        cost_usd=None,
    )
    return replace(usage, cost_usd=_cost_usd(usage, config)) if counts else usage


def _cost_usd(usage: Usage, config: OpenAIChatConfig) -> float | None:
    prices = config.prices
    if prices is None:
        return None
    cached_price = prices.cached_input_usd_per_mtok
    if cached_price is None:
        cached_price = prices.input_usd_per_mtok
    fresh = usage.input_tokens - usage.cached_tokens
    return (
        fresh * prices.input_usd_per_mtok
        + usage.cached_tokens * cached_price
        + usage.output_tokens * prices.output_usd_per_mtok
    ) / 1e6


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0

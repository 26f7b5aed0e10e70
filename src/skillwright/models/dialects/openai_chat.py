"""OpenAI's chat completions, and the differences of other servers."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Completion, Message, ModelRefused, Sampling
from skillwright.models.dialects.chat_completions import ChatDialect, read_answer, stream_fields
from skillwright.models.dialects.config import OpenAIChatConfig
from skillwright.models.http.endpoint import bearer, chosen

# Requests that particular OpenAI models refuse (as of 2026-11).


@dataclass(frozen=True, slots=True)
class _Quirk:
    """A refused kind of call: the reason and the fix."""

    models: re.Pattern[str]
    tools_only: bool
    fix: str
    harmless_effort: str | None = "\0"  # with this effort there is no problem; None: unset


_QUIRKS = (
    _Quirk(
        re.compile(r"gpt-5[.\d]*-codex|codex-mini|gpt-5\.4-pro"),
        tools_only=False,
        fix="answers on the responses route only: set transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-5\.4(?!-pro)"),
        tools_only=True,
        harmless_effort=None,
        fix="takes no tools on chat completions with a reasoning_effort: leave that out, or set "
        "transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-5\.6|gpt-6-sol"),
        tools_only=True,
        harmless_effort="none",
        fix="takes tools on chat completions only with reasoning_effort: none; set that, or "
        "transport: responses",
    ),
    _Quirk(
        re.compile(r"gpt-6\.1-sol"),
        tools_only=True,
        fix="takes no tools on chat completions: set transport: responses",
    ),
)


def refuse_what_the_model_refuses(config: OpenAIChatConfig, *, tools: bool) -> None:
    """Refuse a call that the model is known to answer with a 400."""
    if config.served_by.name != "openai" or config.transport != "chat_completions":
        return
    for quirk in _QUIRKS:
        if not quirk.models.match(config.model) or (quirk.tools_only and not tools):
            continue
        if config.reasoning_effort != quirk.harmless_effort:
            raise ModelRefused(f"nothing was sent: model {config.model!r} {quirk.fix}.")


logger = logging.getLogger(__name__)

_CHARACTERS_PER_TOKEN = 12  # upper bound for ordinary text
# Without these, vLLM uses the defaults in the weights' folder, which would change scores.
_VLLM_DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}


@dataclass(frozen=True, slots=True)
class OpenAIDialect(ChatDialect[OpenAIChatConfig]):
    """Base of OpenAI's two routes."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the header that carries the key: Azure's own, or a bearer token."""
        config = self.config
        kind = config.served_by.key_header if config.key_header == "auto" else config.key_header
        return {"api-key": key} if key and kind == "api-key" else bearer(key)


@dataclass(frozen=True, slots=True)
class OpenAIChat(OpenAIDialect):
    """OpenAI's chat completions, adapted to the server."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; see `skillwright.models.http.endpoint.Dialect`."""
        config = self.config
        refuse_what_the_model_refuses(config, tools=bool(tools))
        name, effort = config.max_tokens_name, config.reasoning_effort
        limit_name = config.served_by.max_tokens_name if name == "auto" else name
        is_nested = config.served_by.nested_effort
        fields = {
            **(_VLLM_DEFAULTS if config.served_by.name == "vllm" else {}),
            limit_name: chosen("max_tokens", sampling, config),
            "seed": sampling.seed if config.send_seed else None,
            "reasoning_effort": None if is_nested else effort,
            "reasoning": {"effort": effort} if is_nested and effort else None,
            **stream_fields(config.stream),
        }
        return self.chat_request(messages, tools, sampling, fields)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer, and warn if Ollama truncated its prompt."""
        answer = read_answer(payload, self.config, request)
        if self.config.served_by.name == "ollama":
            _warn_of_a_cut_prompt(answer, request)
        return answer


def _warn_of_a_cut_prompt(answer: Completion, request: Mapping[str, Any]) -> None:
    """Warn of a truncated prompt: Ollama does not report it, but its token count shows it."""
    sent = sum(len(message.get("content") or "") for message in request["messages"])
    if 0 < _CHARACTERS_PER_TOKEN * answer.usage.input_tokens < sent:
        logger.warning(
            "Ollama counted %d prompt tokens in %d characters, so it cut the conversation. "
            "Raise OLLAMA_CONTEXT_LENGTH, or num_ctx of model %r.",
            answer.usage.input_tokens,
            sent,
            answer.model,
        )

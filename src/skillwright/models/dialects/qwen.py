"""Qwen: chat completions with a thinking setting, which differs between hosts and servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Message, ModelRefused, Sampling
from skillwright.models.dialects.chat_completions import ChatDialect, stream_fields
from skillwright.models.dialects.config import QwenChatConfig
from skillwright.models.http.endpoint import chosen

# Recommended by the vendor for each thinking mode.
_RECOMMENDED: Mapping[str, Mapping[str, float | int]] = {
    "enabled": {"temperature": 0.6, "top_p": 0.95, "top_k": 20},
    "disabled": {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    "server_default": {"temperature": 0.7},
}


@dataclass(frozen=True, slots=True)
class QwenChat(ChatDialect[QwenChatConfig]):
    """Qwen on a local server, or hosted by Alibaba."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; unset values are those that the vendor recommends."""
        config = self.config
        if config.hosted and sampling.json_schema is not None:
            raise ModelRefused(
                "nothing was sent: Alibaba's service holds no answer to a JSON Schema. Ask for the "
                "form in the prompt, or serve the model with vLLM."
            )
        # DashScope refuses most thinking models without a stream.
        stream = config.hosted and config.thinking != "disabled"
        thinking, recommended = _thinking(config), _RECOMMENDED[config.thinking]
        fields = {
            **recommended,
            "top_k": recommended.get("top_k"),
            config.max_tokens_name: chosen("max_tokens", sampling, config),
            "seed": sampling.seed if config.send_seed else None,
            "reasoning_effort": config.reasoning_effort,
            **thinking,
            **stream_fields(stream),
        }
        body = self.chat_request(messages, tools, sampling, fields)
        template = thinking.get("chat_template_kwargs")  # includes those of the settings
        return body | ({"chat_template_kwargs": template} if template else {})


def _thinking(config: QwenChatConfig) -> dict[str, Any]:
    is_set = config.thinking != "server_default"
    switch = {"enable_thinking": config.thinking == "enabled"} if is_set else {}
    if config.hosted:
        return {**switch, "thinking_budget": config.thinking_budget}
    budget = {"thinking_token_budget": config.thinking_budget}
    extra = config.extra_body.get("chat_template_kwargs")
    template = {**switch, **extra} if isinstance(extra, dict) else switch
    return {"chat_template_kwargs": template or None, **budget}

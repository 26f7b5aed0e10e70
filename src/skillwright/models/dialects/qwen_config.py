"""Settings of a Qwen model, on a server of one's own or on Alibaba's."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig

_QWEN_REGIONS = {
    "beijing": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "singapore": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "virginia": "https://dashscope-us.aliyuncs.com/compatible-mode/v1",
    "hong_kong": "https://cn-hongkong.dashscope.aliyuncs.com/compatible-mode/v1",
}
_HOSTED = ".aliyuncs.com"


class QwenChatConfig(EndpointConfig):
    """A Qwen model behind vLLM or SGLang, or hosted by Alibaba (DashScope), with its thinking."""

    backend: Literal["qwen_chat"] = "qwen_chat"
    region: Literal["beijing", "singapore", "virginia", "hong_kong"] | None = None
    """Where Alibaba hosts it, in place of ``base_url``; a key works in its own region only."""
    base_url: BaseUrl = "http://localhost:8000/v1"
    """Where the endpoint is, up to and without ``/chat/completions``."""
    api_key_env: str = "QWEN_CHAT_API_KEY"
    """The environment variable that holds the key; ``DASHSCOPE_API_KEY`` where it is hosted."""
    thinking: Literal["server_default", "enabled", "disabled"] = "server_default"
    """Whether the model thinks first; Instruct models never do, Thinking models always."""
    thinking_budget: PositiveInt | None = None
    """Bound on the thinking, in tokens; unset, the endpoint decides."""
    reasoning_effort: str | None = None
    """``low``, ``medium``, ``high`` for newer models; unset, the endpoint decides."""
    top_k: SkipJsonSchema[Annotated[int, Field(ge=-1)] | None] = None
    """Sample among the likeliest tokens; unset, as recommended for the kind of thinking."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How the endpoint calls the bound on an answer."""
    send_seed: bool = True
    """Send the seed of each call; switch it off for an endpoint that refuses the field."""

    @model_validator(mode="before")
    @classmethod
    def _fills_in_the_address(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        filled = dict(settings)
        if settings.get("region") in _QWEN_REGIONS:
            filled.setdefault("base_url", _QWEN_REGIONS[settings["region"]])
        if _HOSTED in str(filled.get("base_url", "")):
            filled.setdefault("api_key_env", "DASHSCOPE_API_KEY")
        return filled

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "QwenChatConfig":
        if self.region and self.base_url != _QWEN_REGIONS[self.region]:
            raise ValueError(f"region {self.region!r} and base_url name two places; keep one")
        if self.thinking_budget and self.thinking == "disabled":
            raise ValueError("thinking_budget has no use with thinking: disabled; keep one")
        return self

    @property
    def hosted(self) -> bool:
        """Whether Alibaba serves it."""
        return self.host.endswith(_HOSTED)

    @property
    def usual_key_env(self) -> str:
        """The variable that is looked at where the settings name none."""
        return "DASHSCOPE_API_KEY" if self.hosted else "QWEN_CHAT_API_KEY"

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses whoever has no key."""
        return self.hosted

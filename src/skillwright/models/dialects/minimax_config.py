"""Settings of a model that MiniMax hosts."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig

_MINIMAX_REGIONS = {
    "global_en": "https://api.minimax.io/v1",
    "cn_zh": "https://api.minimaxi.com/v1",
}
_IGNORED = "MiniMax ignores this field or does not document it; leave it out"


class MiniMaxChatConfig(EndpointConfig):
    """A model of MiniMax, in one of its two regions."""

    backend: Literal["minimax_chat"] = "minimax_chat"
    region: Literal["global_en", "cn_zh"] = "global_en"
    """Which of MiniMax's hosts; a key works in its own region only."""
    base_url: BaseUrl = _MINIMAX_REGIONS["global_en"]
    """Where the endpoint is, up to and without ``/chat/completions``; by default the region's."""
    api_key_env: str = "MINIMAX_API_KEY"
    """The environment variable that holds the key."""
    temperature: float | None = 1.0
    """Above 0, as 0 is an error there; the vendor recommends 1."""
    top_p: float | None = 0.95
    """The vendor recommends 0.95."""
    thinking: Literal["server_default", "adaptive", "disabled"] = "server_default"
    """Whether MiniMax-M3 thinks first; older models always do."""

    absent_fields: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("seed", "logprobs", "top_logprobs", "response_format", "reasoning_effort"), _IGNORED
    )

    @model_validator(mode="before")
    @classmethod
    def _fills_in_the_address(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping) or settings.get("region") not in _MINIMAX_REGIONS:
            return settings
        return {"base_url": _MINIMAX_REGIONS[settings["region"]], **settings}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "MiniMaxChatConfig":
        for name, value in (("temperature", self.temperature), ("top_p", self.top_p)):
            if value is not None and not 0 < value <= (2 if name == "temperature" else 1):
                raise ValueError(f"{name} is {value:g}; MiniMax takes values above 0, up to 1")
        if self.thinking == "disabled" and self.model.startswith("MiniMax-M2"):
            raise ValueError(
                f"{self.model} always thinks; leave thinking out, or use MiniMax-M3 to disable it"
            )
        return self

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses whoever has no key."""
        return ".minimax" in self.host

"""Settings of the endpoints of each vendor."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlencode, urlsplit

from pydantic import Field, PositiveInt, model_validator

from skillwright.models.http.azure import SignIn, check_takes_token
from skillwright.models.http.endpoint_config import (
    OPENAI_BASE_URL,
    SERVERS,
    BaseUrl,
    EndpointConfig,
    Server,
    ServerName,
    server_at,
)


class OpenAIChatConfig(EndpointConfig):
    """OpenAI chat completions endpoint."""

    backend: Literal["openai_chat"] = "openai_chat"
    server: ServerName = "auto"
    """Server type; sets its usual address, key variable and behavior; ``auto`` uses the host.
    ``vllm`` gets temperature 1, top_p 1 and top_k -1 where unset."""
    transport: Literal["chat_completions", "responses"] = "chat_completions"
    """``responses`` for OpenAI models that need it for tools with reasoning."""
    base_url: BaseUrl = OPENAI_BASE_URL
    api_version: str | None = None
    """Azure's dated API version; unset, the v1 route."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the key."""
    key_header: Literal["auto", "authorization", "api-key"] | SignIn = "auto"
    """Header of the key; ``auto`` uses ``api-key`` for Azure, else a bearer token.
    ``managed_identity`` and ``azure_cli`` sign in to Azure without a key (extra ``azure``)."""
    max_tokens_name: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """Field name of the output limit; ``auto`` uses the new name for OpenAI and Azure."""
    send_seed: bool = True
    """Send a seed; disable for endpoints that refuse it."""
    reasoning_effort: str | None = None
    """Reasoning effort; the accepted values depend on the model."""
    stream: bool = False
    """Stream responses, for proxies that close idle connections."""

    @model_validator(mode="before")
    @classmethod
    def _with_server_defaults(cls, settings: Any) -> Any:
        """Fill in URL and key variable by the server's name or URL; given settings stay."""
        if not isinstance(settings, Mapping):
            return settings
        server = SERVERS.get(str(settings.get("server")))
        base_url = settings.get("base_url") or (server.base_url if server else OPENAI_BASE_URL)
        if server is None and isinstance(base_url, str):
            server = server_at(urlsplit(base_url).netloc.lower())
        known = {"base_url": base_url, "api_key_env": server.api_key_env if server else None}
        return {**{name: value for name, value in known.items() if value}, **settings}

    @model_validator(mode="after")
    def _check_endpoint(self) -> "OpenAIChatConfig":
        azure = self.served_by.name == "azure"
        if azure and self.base_url == OPENAI_BASE_URL:
            raise ValueError(
                "server 'azure' needs base_url: https://<resource>.openai.azure.com, which the "
                "portal shows as the endpoint"
            )
        if self.api_version and not azure:
            raise ValueError("api_version belongs to Azure; leave it out, or set server: azure")
        if self.sign_in:
            check_takes_token(self.base_url)
        if self.transport == "responses" and self.stream:
            raise ValueError("transport 'responses' does not stream here; leave out stream")
        return self

    @property
    def takes_seeds(self) -> bool:
        """Whether ``send_seed`` is set."""
        return self.send_seed and self.transport == "chat_completions"

    @property
    def served_by(self) -> Server:
        """Known properties of the server."""
        return server_at(self.host) if self.server == "auto" else SERVERS[self.server]

    @property
    def sign_in(self) -> SignIn | None:
        """How a token is got in place of a key; ``None`` for a key."""
        header = self.key_header
        return header if header in ("managed_identity", "azure_cli") else None

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses requests without a key."""
        return self.served_by.needs_key and not self.sign_in

    @property
    def usual_key_env(self) -> str:
        """Key variable that is used if the settings name none."""
        return self.served_by.api_key_env

    @property
    def url(self) -> str:
        """URL of the requests; Azure has other paths, by deployment or API version."""
        route = "/responses" if self.transport == "responses" else "/chat/completions"
        if self.served_by.name != "azure":
            return self.base_url + route
        resource = self.base_url.removesuffix("/openai/v1").removesuffix("/openai")
        if not self.api_version:
            return f"{resource}/openai/v1{route}"
        version = urlencode({"api-version": self.api_version})
        if self.transport == "responses":
            return f"{resource}/openai/responses?{version}"
        return f"{resource}/openai/deployments/{self.model}{route}?{version}"


_WITHOUT_SAMPLING = "2026-10-21"
# Models that answer 400 to temperature, top_p and top_k under every API version.
_FIXED_SAMPLING = re.compile(r"claude-(opus-4-[7-9]|opus-[5-9]|fable-|sonnet-[5-9])")
_LEAST_TOP_P = 0.95  # smallest value accepted with thinking
_VERSION = r"\d{4}-\d{2}-\d{2}"
_NO_SUCH_FIELD = "Anthropic's messages have no such field; leave it out"


class ClaudeChatConfig(EndpointConfig):
    """Anthropic messages API or a compatible gateway."""

    backend: Literal["claude_chat"] = "claude_chat"
    transport: Literal["api", "cli"] = "api"
    """``api`` uses HTTP with a key, ``cli`` the ``claude`` program."""
    path: str | None = None
    """Program for ``transport: cli``; unset, ``CLAUDE_CLI_BIN`` or ``claude``."""
    base_url: BaseUrl = "https://api.anthropic.com"
    api_key_env: str = "ANTHROPIC_API_KEY"
    key_header: Literal["x-api-key", "authorization"] = "x-api-key"
    """Header of the key; ``authorization`` for a bearer token."""
    api_version: Annotated[str, Field(pattern=_VERSION)] = "2023-06-01"
    """``anthropic-version``; ``2026-10-21`` takes no sampling settings."""
    max_tokens: Annotated[int, Field(ge=1)] = 8192
    """Maximum output tokens, including reasoning."""
    thinking: Literal["server_default", "adaptive", "enabled", "disabled"] = "server_default"
    """Thinking; ``enabled`` needs ``thinking_budget``, newer models use ``adaptive`` with
    ``effort``."""
    thinking_budget: Annotated[int, Field(ge=1024)] | None = None
    """Tokens for ``thinking: enabled``, in addition to the output limit."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """Reasoning effort; unset, the endpoint's default."""
    prompt_cache: Literal["off", "5m", "1h"] = "5m"
    """Lifetime of the prompt cache; writes cost more, reads much less."""
    stream: bool = False
    """Stream responses, for proxies that close idle connections."""

    absent_fields: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("seed", "logprobs", "top_logprobs", "n", "logit_bias", "response_format"), _NO_SUCH_FIELD
    )

    @model_validator(mode="after")
    def _check_settings(self) -> "ClaudeChatConfig":
        if self.temperature is not None and self.temperature > 1:
            raise ValueError(f"temperature is {self.temperature:g}; Claude takes 0 to 1")
        sampled = self.temperature is not None or self.top_p is not None
        if sampled and self.refuses_sampling:
            raise ValueError(
                f"model {self.model!r} under api_version {self.api_version} takes no temperature "
                "or top_p; leave them out"
            )
        if (self.thinking == "enabled") != (self.thinking_budget is not None):
            raise ValueError(
                "thinking: enabled and thinking_budget belong together; set both, or use "
                "thinking: adaptive with effort"
            )
        if problem := self.why_not_while_thinking(self.temperature, self.top_p):
            raise ValueError(problem)
        return self

    def why_not_while_thinking(self, temperature: float | None, top_p: float | None) -> str:
        """Return which sampling setting is refused with thinking; ``""`` if none is."""
        if self.thinking not in ("enabled", "adaptive"):
            return ""
        if temperature not in (None, 1.0):
            return f"temperature must be 1 or unset while thinking is {self.thinking}"
        if top_p is not None and top_p < _LEAST_TOP_P:
            return f"top_p must be {_LEAST_TOP_P} to 1 or unset while thinking is {self.thinking}"
        return ""

    @property
    def calls_tools(self) -> bool:
        """Whether it is the API: the program has tools of its own."""
        return self.transport == "api"

    @property
    def refuses_sampling(self) -> bool:
        """Whether this model and API version refuse all sampling fields."""
        return self.api_version >= _WITHOUT_SAMPLING or bool(_FIXED_SAMPLING.search(self.model))

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses requests without a key."""
        return self.transport == "api" and self.host == "api.anthropic.com"

    @property
    def url(self) -> str:
        """URL of the requests."""
        versioned = urlsplit(self.base_url).path.endswith("/v1")
        return f"{self.base_url}{'' if versioned else '/v1'}/messages"


_QWEN_REGIONS = {
    "beijing": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "singapore": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    "virginia": "https://dashscope-us.aliyuncs.com/compatible-mode/v1",
    "hong_kong": "https://cn-hongkong.dashscope.aliyuncs.com/compatible-mode/v1",
}
_HOSTED = ".aliyuncs.com"


class QwenChatConfig(EndpointConfig):
    """Qwen model behind vLLM, SGLang or DashScope."""

    backend: Literal["qwen_chat"] = "qwen_chat"
    region: Literal["beijing", "singapore", "virginia", "hong_kong"] | None = None
    """DashScope region, instead of ``base_url``; keys are valid in one region."""
    base_url: BaseUrl = "http://localhost:8000/v1"
    api_key_env: str = "QWEN_CHAT_API_KEY"
    """Environment variable with the key."""
    thinking: Literal["server_default", "enabled", "disabled"] = "server_default"
    """Thinking mode; Instruct models never think, Thinking models always do."""
    thinking_budget: PositiveInt | None = None
    """Maximum thinking tokens; unset, the endpoint's default."""
    reasoning_effort: str | None = None
    """Reasoning effort; the accepted values depend on the model."""
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Field name of the output limit."""
    send_seed: bool = True
    """Send a seed; disable for endpoints that refuse it."""

    @model_validator(mode="before")
    @classmethod
    def _with_base_url(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        filled = dict(settings)
        if settings.get("region") in _QWEN_REGIONS:
            filled.setdefault("base_url", _QWEN_REGIONS[settings["region"]])
        if _HOSTED in str(filled.get("base_url", "")):
            filled.setdefault("api_key_env", "DASHSCOPE_API_KEY")
        return filled

    @model_validator(mode="after")
    def _check_settings(self) -> "QwenChatConfig":
        if self.region and self.base_url != _QWEN_REGIONS[self.region]:
            raise ValueError(f"region {self.region!r} and base_url name two places; keep one")
        if self.thinking_budget and self.thinking == "disabled":
            raise ValueError("thinking_budget has no use with thinking: disabled; keep one")
        return self

    @property
    def takes_seeds(self) -> bool:
        """Whether ``send_seed`` is set."""
        return self.send_seed

    @property
    def hosted(self) -> bool:
        """Whether Alibaba serves it."""
        return self.host.endswith(_HOSTED)

    @property
    def usual_key_env(self) -> str:
        """Key variable that is used if the settings name none."""
        return "DASHSCOPE_API_KEY" if self.hosted else "QWEN_CHAT_API_KEY"

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses requests without a key."""
        return self.hosted


_MINIMAX_REGIONS = {
    "global_en": "https://api.minimax.io/v1",
    "cn_zh": "https://api.minimaxi.com/v1",
}
_IGNORED = "MiniMax ignores this field or does not document it; leave it out"


class MiniMaxChatConfig(EndpointConfig):
    """MiniMax model."""

    backend: Literal["minimax_chat"] = "minimax_chat"
    region: Literal["global_en", "cn_zh"] = "global_en"
    """MiniMax region; keys are valid in one region."""
    base_url: BaseUrl = _MINIMAX_REGIONS["global_en"]
    """URL without the route."""
    api_key_env: str = "MINIMAX_API_KEY"
    temperature: float | None = 1.0
    """Sampling temperature above 0; the vendor recommends 1."""
    top_p: float | None = 0.95
    """Nucleus sampling; the vendor recommends 0.95."""
    thinking: Literal["server_default", "adaptive", "disabled"] = "server_default"
    """Thinking mode of MiniMax-M3; older models always think."""

    absent_fields: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("seed", "logprobs", "top_logprobs", "response_format", "reasoning_effort"), _IGNORED
    )

    @model_validator(mode="before")
    @classmethod
    def _with_base_url(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping) or settings.get("region") not in _MINIMAX_REGIONS:
            return settings
        return {"base_url": _MINIMAX_REGIONS[settings["region"]], **settings}

    @model_validator(mode="after")
    def _check_settings(self) -> "MiniMaxChatConfig":
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
        """Whether the endpoint refuses requests without a key."""
        return ".minimax" in self.host

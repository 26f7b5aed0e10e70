"""Settings of a model that speaks Anthropic's messages."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig

_WITHOUT_SAMPLING = "2026-10-21"
# Models that answer 400 to temperature, top_p and top_k under every API version.
_FIXED_SAMPLING = re.compile(r"claude-(opus-4-[7-9]|opus-[5-9]|fable-|sonnet-[5-9])")
_LEAST_TOP_P = 0.95  # that a model takes while it thinks
_VERSION = r"\d{4}-\d{2}-\d{2}"
_NO_SUCH_FIELD = "Anthropic's messages have no such field; leave it out"


class ClaudeChatConfig(EndpointConfig):
    """A model behind the Anthropic messages API, or a gateway that speaks it."""

    backend: Literal["claude_chat"] = "claude_chat"
    transport: Literal["api", "cli"] = "api"
    """``api``: HTTP with a key. ``cli``: the ``claude`` program."""
    path: str | None = None
    """The program for ``transport: cli``; unset, ``CLAUDE_CLI_BIN``, else ``claude``."""
    base_url: BaseUrl = "https://api.anthropic.com"
    """Where the endpoint is, up to and without ``/v1/messages``."""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the key."""
    key_header: Literal["x-api-key", "authorization"] = "x-api-key"
    """How the key is sent; ``authorization`` for a bearer token (``ANTHROPIC_AUTH_TOKEN``)."""
    api_version: Annotated[str, Field(pattern=_VERSION)] = "2023-06-01"
    """The ``anthropic-version``; gateways know this one, and ``2026-10-21`` takes no sampling."""
    betas: SkipJsonSchema[tuple[Annotated[str, Field(pattern=r"^[!-+\--~]+$")], ...]] = ()
    """Names for the ``anthropic-beta`` header."""
    top_k: SkipJsonSchema[Annotated[int, Field(ge=1)] | None] = None
    """Sample among the likeliest tokens; unset, the endpoint decides."""
    max_tokens: Annotated[int, Field(ge=1)] = 8192
    """Bound on the answer with its thinking, used where a call sets none; the API demands one."""
    thinking: Literal["server_default", "adaptive", "enabled", "disabled"] = "server_default"
    """``enabled`` needs a ``thinking_budget``; newer models know ``adaptive`` with ``effort``."""
    thinking_budget: Annotated[int, Field(ge=1024)] | None = None
    """Tokens for ``thinking: enabled``; a bound on the answer leaves it room beside them."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How hard the model works; unset, the endpoint decides."""
    prompt_cache: Literal["off", "5m", "1h"] = "5m"
    """How long the endpoint keeps a prompt's beginning; writing costs more, reading much less."""
    stream: bool = False
    """Let the answer come in pieces: long answers then survive proxies that cut idle calls."""

    absent_fields: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("seed", "logprobs", "top_logprobs", "n", "logit_bias", "response_format"), _NO_SUCH_FIELD
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "ClaudeChatConfig":
        if self.temperature is not None and self.temperature > 1:
            raise ValueError(f"temperature is {self.temperature:g}; Claude takes 0 to 1")
        sampled = self.temperature is not None or self.top_p is not None or self.top_k is not None
        if sampled and self.refuses_sampling:
            raise ValueError(
                f"model {self.model!r} under api_version {self.api_version} takes no temperature, "
                "top_p or top_k; leave them out"
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
        """Say which sampling setting a model that thinks refuses; ``""`` where it takes all."""
        if self.thinking not in ("enabled", "adaptive"):
            return ""
        if temperature not in (None, 1.0):
            return f"temperature must be 1 or unset while thinking is {self.thinking}"
        if top_p is not None and top_p < _LEAST_TOP_P:
            return f"top_p must be {_LEAST_TOP_P} to 1 or unset while thinking is {self.thinking}"
        return f"top_k must be unset while thinking is {self.thinking}" if self.top_k else ""

    @property
    def refuses_sampling(self) -> bool:
        """Whether this model, under this version, answers 400 to any sampling field."""
        return self.api_version >= _WITHOUT_SAMPLING or bool(_FIXED_SAMPLING.search(self.model))

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses whoever has no key."""
        return self.transport == "api" and self.host == "api.anthropic.com"

    @property
    def url(self) -> str:
        """Where a conversation is posted."""
        versioned = urlsplit(self.base_url).path.endswith("/v1")
        return f"{self.base_url}{'' if versioned else '/v1'}/messages"

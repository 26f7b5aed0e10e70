"""The settings of a model behind an HTTP endpoint, and the known servers."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from skillwright.core import ConfigError
from skillwright.models.backends import Keyed
from skillwright.models.http.azure import SignIn
from skillwright.models.prices import Prices, list_prices

_SECRET_HEADER = re.compile(
    r"authorization|(^|-)auth(-|$)|api-?key|token|secret|cookie", re.IGNORECASE
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[ -~]*")
_OWN_HEADERS = frozenset(
    {"content-type", "content-length", "transfer-encoding", "content-encoding", "host"}
    | {"connection", "accept-encoding", "expect", "upgrade"}
)
_OWN_FIELDS = frozenset({"model", "messages", "input", "tools", "stream", "n"})
_NO_ANSWER_DEPENDS_ON = frozenset(
    {
        *("backend", "model", "path", "api_key_env", "key_header", "headers", "prices"),
        *("timeout_s", "deadline_s", "max_attempts", "hedge", "cache"),
        *("max_concurrent", "start_concurrent"),
        *("requests_per_minute", "tokens_per_minute", "prompt_cache", "stream"),
    }
)


def check_base_url(url: str) -> str:
    """Return a base URL without surrounding blanks and trailing slash."""
    url = url.strip()
    if "@" in url:  # checked first: it may be a password, which must not be shown
        raise ValueError("the URL holds a user name or password; put the key in api_key_env")
    if "?" in url or "#" in url:
        raise ValueError(f"{re.split('[?#]', url)[0]!r}: leave out what follows '?' or '#'")
    parts = urlsplit(url)
    _ = parts.port  # raises a ValueError with the problem
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
        raise ValueError(f"{url!r} is no endpoint; write one such as 'https://api.openai.com/v1'")
    for route in ("/chat/completions", "/responses", "/messages"):
        if parts.path.rstrip("/").endswith(route):
            raise ValueError(f"leave out {route!r}: it is added to the base URL automatically")
    return url.rstrip("/")


BaseUrl = Annotated[str, AfterValidator(check_base_url)]


class EndpointConfig(Keyed):
    """Model behind an HTTP endpoint."""

    backend: str
    model: Annotated[str, Field(min_length=1)]
    """Model name at the endpoint."""
    base_url: BaseUrl
    """URL without the route."""
    api_key_env: str
    """Environment variable with the key."""
    api_key: Annotated[SecretStr | None, Field(exclude=True, repr=False)] = None
    """Key, used before ``api_key_env``; never stored."""
    timeout_s: PositiveFloat = 120.0
    """Seconds per attempt."""
    deadline_s: PositiveFloat = 600.0
    """Seconds per call including retries; after this time without any answer the run stops."""
    max_concurrent: PositiveInt = 128
    """Maximum calls in flight; models that share an endpoint and key use the smallest bound."""
    start_concurrent: SkipJsonSchema[PositiveInt] = 16
    """Calls in flight at first; it rises while all goes well, and falls where the endpoint is busy,
    becomes slow, or fails most calls."""
    requests_per_minute: PositiveInt | None = None
    """Attempts per minute; unset, no limit."""
    tokens_per_minute: PositiveInt | None = None
    """Tokens per minute, input and output; unset, no limit."""
    hedge: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of extra requests for late calls at the end of a stage, such as 0.1; both requests are
    paid for."""
    max_attempts: PositiveInt = 6
    """Attempts per call."""
    cache: Annotated[str, Field(min_length=1)] | None = None
    """File that caches replies across runs."""
    temperature: NonNegativeFloat | None = None
    """Sampling temperature; unset, the endpoint's default."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling; unset, the endpoint's default."""
    max_tokens: PositiveInt | None = None
    """Maximum output tokens, including reasoning."""
    system: Literal["message", "merge"] = "message"
    """``merge`` puts the system text before the first user message, for chat templates without a
    system role."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Extra request fields, such as ``chat_template_kwargs``."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Extra request headers; they are stored, so put no secret here."""
    prices: Prices | None = None
    """Prices; unset, the vendor's list prices, or unknown (never zero)."""

    no_answer_depends_on: ClassVar[frozenset[str]] = _NO_ANSWER_DEPENDS_ON
    # Request fields that this dialect lacks, with the reason.
    absent_fields: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _without_default_key_env(cls, settings: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(settings)
        if isinstance(settings, Mapping) and "api_key_env" not in settings:
            made.model_fields_set.discard(
                "api_key_env"
            )  # the server's default is not set by the user
        return made

    @model_serializer(mode="wrap")
    def _write_without_default_key_env(
        self, write: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if "api_key_env" not in self.model_fields_set:  # else it would be read back as set
            written.pop("api_key_env", None)
        return written

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        secret = [name for name in headers if _SECRET_HEADER.search(name)]
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ValueError(f"{name!r} is no header that can be set; leave it out")
            if not _HEADER_VALUE.fullmatch(value):
                raise ValueError(
                    f"the value of {name!r} holds a line break or a character that HTTP headers "
                    "cannot carry; write it in ASCII, on one line"
                )
        if secret:
            raise ValueError(
                f"{secret[0]!r} would be stored with the run. The key is sent by itself; "
                "name the environment variable that holds it in api_key_env"
            )
        return headers

    @field_validator("extra_body")
    @classmethod
    def _check_extra_body(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted(_OWN_FIELDS & extra.keys())
        if taken:
            raise ValueError(f"{taken[0]!r} is set by the caller; take it out of extra_body")
        absent = sorted(cls.absent_fields.keys() & extra.keys())
        if absent:
            raise ValueError(f"{absent[0]!r}: {cls.absent_fields[absent[0]]}")
        return extra

    @model_validator(mode="after")
    def _check_deadline(self) -> "EndpointConfig":
        if self.deadline_s < self.timeout_s:
            raise ValueError(
                f"deadline_s ({self.deadline_s:g}) is shorter than timeout_s "
                f"({self.timeout_s:g}), so no attempt could use its time; raise deadline_s"
            )
        return self

    @property
    def host(self) -> str:
        """The endpoint's host, with its port where the URL names one."""
        return urlsplit(self.base_url).netloc.lower()

    @property
    def url(self) -> str:
        """URL of the requests."""
        return f"{self.base_url}/chat/completions"

    @property
    def known_prices(self) -> Prices | None:
        """Prices in the settings, else the vendor's list prices, else ``None``."""
        return self.prices or list_prices(self.model, self.base_url)

    @property
    def address(self) -> str:
        """The base URL."""
        return self.base_url

    @property
    def why_here_only(self) -> str:
        """Why it cannot run on other machines; "" if it can."""
        return "its cache is a file of this machine. Leave it out" if self.cache else ""

    @property
    def needs_key(self) -> bool:
        """Whether the endpoint refuses requests without a key."""
        raise NotImplementedError

    @property
    def sign_in(self) -> SignIn | None:
        """How a token is got in place of a key; ``None`` for a key."""
        return None

    @property
    def usual_key_env(self) -> str:
        """Key variable that is used if the settings name none."""
        return str(type(self).model_fields["api_key_env"].default)

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that can change an answer, without secrets."""
        matters = super().what_matters()
        if self.system == "message":
            del matters["system"]  # as in the identities of models before this setting
        # Gateways route by headers.
        return matters | ({"headers": self.headers} if self.headers else {})


def find_key(config: EndpointConfig) -> str:
    """Find the key in the settings, else in their variable; ``""`` if the endpoint needs none.

    Raises:
        ConfigError: A required key or a variable named by the user is missing, or the key has
            characters that no HTTP header may contain.
    """
    if config.sign_in:
        return ""
    key = config.given_key or os.environ.get(config.api_key_env, "").strip()
    is_named = "api_key_env" in config.model_fields_set
    if not key and (is_named or config.api_key_env != config.usual_key_env):
        raise ConfigError(
            f"model {config.model!r} at {config.base_url} has its key in the environment variable "
            f"{config.api_key_env} (api_key_env), which is not set: set it, or leave api_key_env "
            "out for a server that needs no key"
        )
    if not key and config.needs_key:
        raise ConfigError(
            f"model {config.model!r} is at {config.base_url} and needs a key: set the environment "
            f"variable {config.api_key_env}, name another in api_key_env, or set base_url to a "
            "server of your own, which needs none"
        )
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in {config.api_key_env} holds a line break or a character that HTTP headers "
            "cannot carry; copy it again"
        )
    return key


# Servers of OpenAI chat completions, as of late 2026.


ServerName = Literal[
    "auto", "openai", "azure", "vllm", "sglang", "ollama", "openrouter", "llama_cpp", "other"
]


@dataclass(frozen=True, slots=True)
class Server:
    """The properties of a kind of server.

    Attributes:
        name: Value of ``server`` in a configuration.
        base_url: Default URL; ``""`` if there is none.
        api_key_env: Usual key variable.
        needs_key: Whether it refuses requests without a key.
        max_tokens_name: Field name of the output limit.
        key_header: ``api-key`` for the bare key, ``authorization`` for a bearer token.
        nested_effort: Whether it takes ``reasoning: {effort}`` instead of ``reasoning_effort``.
    """

    name: str
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    needs_key: bool = False
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    key_header: Literal["authorization", "api-key"] = "authorization"
    nested_effort: bool = False


OTHER = Server("other")

SERVERS = {
    server.name: server
    for server in (
        Server(
            "openai",
            "https://api.openai.com/v1",
            needs_key=True,
            max_tokens_name="max_completion_tokens",
        ),
        Server(
            "azure",
            api_key_env="AZURE_OPENAI_API_KEY",
            needs_key=True,
            max_tokens_name="max_completion_tokens",
            key_header="api-key",
        ),
        Server("vllm", "http://localhost:8000/v1", "VLLM_API_KEY"),
        Server("sglang", "http://localhost:30000/v1", "SGLANG_API_KEY"),
        Server("ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY"),
        Server(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            needs_key=True,
            nested_effort=True,
        ),
        Server("llama_cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
        OTHER,
    )
}

OPENAI_BASE_URL = SERVERS["openai"].base_url

_HOSTS = {
    "api.openai.com": "openai",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama",
    "localhost:11434": "ollama",
    "127.0.0.1:11434": "ollama",
}


def server_at(host: str) -> Server:
    """Return the server of a host, with its port if it has one; unknown hosts are plain servers."""
    if host.endswith(".openai.azure.com"):
        return SERVERS["azure"]
    return SERVERS[_HOSTS.get(host, "other")]

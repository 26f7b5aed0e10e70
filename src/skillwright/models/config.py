"""What a configuration says about a model. Frozen; unknown keys are refused; keys never dumped."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from skillwright.core import ConfigError
from skillwright.models.backends import why_unusable
from skillwright.models.validation import explain_validation_error

OPENAI_BASE_URL = "https://api.openai.com/v1"

_ROUTE = "/chat/completions"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_HEADER = re.compile(
    r"authorization|(^|-)auth(-|$)|api-?key|token|secret|cookie", re.IGNORECASE
)
_OWN_FIELDS = frozenset({"model", "messages", "tools", "stream", "n"})


class _Frozen(BaseModel):
    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Prices(_Frozen):
    """List prices, in US dollars per million tokens."""

    input_usd_per_mtok: NonNegativeFloat
    """Prompt tokens."""
    output_usd_per_mtok: NonNegativeFloat
    """Completion tokens, reasoning included."""
    cached_input_usd_per_mtok: NonNegativeFloat | None = None
    """Prompt tokens that the endpoint had cached; unset, they cost what other prompt tokens do."""


def _check_base_url(url: str) -> str:
    parts = urlsplit(url)
    _ = parts.port  # raises a ValueError that says what is wrong with it
    if parts.username or parts.password:
        raise ValueError("the URL holds a user name or password; put the key in api_key_env")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no endpoint; write one such as {OPENAI_BASE_URL!r}")
    if parts.query or parts.fragment:
        raise ValueError(f"{parts.hostname}: leave out what follows '?' or '#'")
    if parts.path.rstrip("/").endswith(_ROUTE):
        raise ValueError(f"leave out {_ROUTE!r}: it is added to the base URL by itself")
    return url.rstrip("/")


class OpenAIChatConfig(_Frozen):
    """A model behind an endpoint that speaks OpenAI's chat completions."""

    backend: Literal["openai_chat"] = "openai_chat"
    model: Annotated[str, Field(min_length=1)]
    """The model's name, as the endpoint knows it."""
    base_url: Annotated[str, AfterValidator(_check_base_url)] = OPENAI_BASE_URL
    """Where the endpoint is, up to and without ``/chat/completions``."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key."""
    api_key: Annotated[SecretStr | None, Field(exclude=True, repr=False)] = None
    """The key itself, before ``api_key_env``; never written anywhere."""
    timeout_s: PositiveFloat = 120.0
    """Seconds that one attempt may take."""
    deadline_s: PositiveFloat = 600.0
    """Seconds that a call may take with its retries; waiting for a free slot does not count."""
    max_concurrent: PositiveInt = 16
    """Calls in flight; models on one endpoint and key share the smallest of their bounds."""
    max_attempts: PositiveInt = 6
    """Attempts per call."""
    temperature: NonNegativeFloat | None = None
    """Used where a call sets none; unset, the endpoint decides."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Used where a call sets none; unset, the endpoint decides."""
    max_tokens: PositiveInt | None = None
    """Bound on the answer with its reasoning, used where a call sets none."""
    max_tokens_name: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """How the endpoint calls that bound; ``auto`` takes the new name for OpenAI and Azure."""
    send_seed: bool = True
    """Send the seed of each call; switch it off for an endpoint that refuses the field."""
    reasoning_effort: str | None = None
    """``none``, ``minimal``, ``low``, ``medium``, ``high``, ...; each model takes some of them."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of the request, such as ``chat_template_kwargs``."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further request headers. They are stored with a run, so they may not hold a secret."""
    prices: Prices | None = None
    """Unset, the cost of a call is unknown (never zero)."""

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, name: str) -> str:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(
                "this names an environment variable and does not hold the key itself; "
                "write, for example, OPENAI_API_KEY"
            )
        return name

    @field_validator("headers")
    @classmethod
    def _hold_no_secret(cls, headers: dict[str, str]) -> dict[str, str]:
        secret = [name for name in headers if _SECRET_HEADER.search(name)]
        if secret:
            raise ValueError(
                f"{secret[0]!r} would be stored with the run. The key is sent by itself; "
                "name the environment variable that holds it in api_key_env"
            )
        return headers

    @field_validator("extra_body")
    @classmethod
    def _leaves_our_fields_alone(cls, extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted(_OWN_FIELDS & extra.keys())
        if taken:
            raise ValueError(f"{taken[0]!r} is set by the caller; take it out of extra_body")
        return extra

    @model_validator(mode="after")
    def _leaves_time_for_an_attempt(self) -> "OpenAIChatConfig":
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
        """Where a conversation is posted."""
        return self.base_url + _ROUTE


class ScriptedConfig(_Frozen):
    """A deterministic mind that needs no endpoint: for tests and the demo."""

    backend: Literal["scripted"] = "scripted"
    model: Literal["household", "analyst"]
    """``household`` acts in ALFWorld houses; ``analyst`` writes proposals from trajectories."""


def _check_backend(value: Any) -> Any:
    name = value.get("backend") if isinstance(value, Mapping) else None
    problem = why_unusable(name) if isinstance(name, str) else None
    if problem:
        raise ValueError(problem)
    return value


ModelConfig = Annotated[
    OpenAIChatConfig | ScriptedConfig,
    Field(discriminator="backend"),
    BeforeValidator(_check_backend),
]
"""Any model that a configuration can name, told apart by ``backend``."""

_ADAPTER: TypeAdapter[OpenAIChatConfig | ScriptedConfig] = TypeAdapter(ModelConfig)


def parse_model_config(settings: Mapping[str, Any], where: str = "") -> ModelConfig:
    """Read the settings of one model.

    Args:
        settings: Plain values, as YAML or JSON gives them.
        where: Their path inside the whole configuration, for messages.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem, with the nearest
            right name.
    """
    try:
        return _ADAPTER.validate_python(settings)
    except ValidationError as error:
        raise ConfigError(explain_validation_error(error, ModelConfig, where)) from None

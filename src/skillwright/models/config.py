"""What a configuration says about a model. Frozen; unknown keys are refused; keys never dumped."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from skillwright.core import ConfigError
from skillwright.models.backends import true_name, why_not_scripted, why_unusable
from skillwright.models.dialects.config import (
    ClaudeChatConfig,
    MiniMaxChatConfig,
    OpenAIChatConfig,
    QwenChatConfig,
)
from skillwright.models.prices import Prices
from skillwright.models.validation import Frozen, explain_validation_error
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.plugins.local.config import LocalConfig

# Settings of a model that is a Python class of one's own.


_ENTRY_POINT = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")


def _check_entry_point(name: str) -> str:
    if not _ENTRY_POINT.fullmatch(name):
        raise ValueError(
            f"{name!r} names no class; write 'path/to/file.py:Class', or 'package.module:Class'"
        )
    return name


class PythonConfig(Frozen):
    """Python class or function."""

    backend: Literal["python"] = "python"
    model: Annotated[str, AfterValidator(_check_entry_point)]
    """``path/to/file.py:Name`` or ``package.module:Name``: a class with ``complete``, or a
    function from messages to text."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of its constructor."""
    scripted: bool = False
    """Whether it is a scripted model; results say so."""
    prices: Prices | None = None
    """Prices, if answers report tokens and no cost."""


class ScriptedConfig(Frozen):
    """Deterministic program for tests and the demo; see [Models](models.md#scripted-models)."""

    backend: Literal["scripted"] = "scripted"
    model: str
    """Name of the scripted model."""
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of random actions (``household``) or answers (``clerk``, ``seeker``); above 0, random
    choices depend on the prompt and the seed."""

    @field_validator("model")
    @classmethod
    def _is_there(cls, name: str) -> str:
        problem = why_not_scripted(name)
        if problem:
            raise ValueError(problem)
        return name

    @model_validator(mode="after")
    def _takes_noise(self) -> "ScriptedConfig":
        problem = why_not_scripted(self.model, self.noise)
        if problem:
            raise ValueError(problem)
        return self


def is_scripted_model(config: "ModelConfig") -> bool:
    """Tell whether a model is scripted, which must be said beside any result."""
    return isinstance(config, ScriptedConfig) or (
        isinstance(config, PythonConfig) and config.scripted
    )


def takes_seeds(config: "ModelConfig") -> bool:
    """Tell whether the seeds of calls reach the model; where they do not, they are left out."""
    match config:
        case ScriptedConfig() | PythonConfig() | LocalConfig():
            return True
        case OpenAIChatConfig():
            return config.send_seed and config.transport == "chat_completions"
        case QwenChatConfig():
            return config.send_seed
        case _:
            return False


def _check_backend(value: Any) -> Any:
    name = value.get("backend") if isinstance(value, Mapping) else None
    if not isinstance(name, str):
        return value
    problem = why_unusable(name)
    if problem:
        raise ValueError(problem)
    return {**value, "backend": true_name(name)}


_AnyConfig = (
    OpenAIChatConfig
    | ClaudeChatConfig
    | QwenChatConfig
    | MiniMaxChatConfig
    | LocalConfig
    | CodexExecConfig
    | ClaudeCodeExecConfig
    | ScriptedConfig
    | PythonConfig
)

ModelConfig = Annotated[
    _AnyConfig,
    Field(discriminator="backend"),
    BeforeValidator(_check_backend),
]
"""Any model that a configuration can name, distinguished by ``backend``."""

_ADAPTER: TypeAdapter[_AnyConfig] = TypeAdapter(ModelConfig)


def parse_model_config(settings: Mapping[str, Any], where: str = "") -> ModelConfig:
    """Read the settings of one model.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem, with the nearest
            right name.
    """
    try:
        return _ADAPTER.validate_python(settings)
    except ValidationError as error:
        raise ConfigError(explain_validation_error(error, ModelConfig, where)) from None

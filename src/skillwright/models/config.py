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
    """Code of your own that answers: a model in this process, a rule, a stand-in."""

    backend: Literal["python"] = "python"
    model: Annotated[str, AfterValidator(_check_entry_point)]
    """``path/to/file.py:Name``, relative to the working directory, or ``package.module:Name``: a
    class with ``complete``, or a function that takes messages and returns a text."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What its constructor is given by keyword."""
    scripted: bool = False
    """It is a scripted model; results are shown with a note of it."""
    prices: Prices | None = None
    """Where its answers tell tokens and no cost; unset, what they tell is what they cost."""


class ScriptedConfig(Frozen):
    """A deterministic model that needs no endpoint: for tests and the demo."""

    backend: Literal["scripted"] = "scripted"
    model: str
    """``household`` acts in ALFWorld houses and ``analyst`` writes proposals from trajectories
    there; ``retail`` and ``retail_analyst`` do so in the built-in store of tau_bench, ``reader``
    and ``reader_analyst`` with the generated questions of qa, ``shopper`` and ``shopper_analyst``
    in webshop, ``clerk`` and ``clerk_analyst`` with the rows of a table, ``seeker`` and
    ``seeker_analyst`` with the generated archives of qa, and ``coder`` and ``coder_teacher`` with
    the requests of sessions. ``searcher`` is an expert in houses,
    ``buyer`` one in webshop and ``finder`` one in the archives, and ``household_teacher`` writes
    the skills of a bank from what was played there (``household_rewording_teacher`` in other
    sentences), as ``retail_teacher``, ``webshop_teacher`` and ``search_teacher`` do for tau_bench,
    webshop and the archives."""
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """For ``household`` the share of turns in which it takes a random admissible action, for
    ``clerk`` that in which it answers at random, for ``seeker`` that in which it searches or
    answers at random.
    Above 0, all its random choices follow the prompt as well as the seed: the two sides of a
    gate's comparison draw independently, and a run still repeats exactly."""

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

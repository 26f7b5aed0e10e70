"""Settings of the models in this process: scripted models and the user's Python code."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from skillwright.core import ConfigError
from skillwright.core.secrets import secrets_in
from skillwright.models.backends import ModelConfig
from skillwright.models.prices import Prices
from skillwright.models.scripted.named import why_not_scripted
from skillwright.models.validation import explain_validation_error

_CODE = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")


def _check_code(name: str) -> str:
    if not _CODE.fullmatch(name):
        raise ValueError(
            f"{name!r} names no class; write 'path/to/file.py:Class', or 'package.module:Class'"
        )
    return name


class PythonConfig(ModelConfig):
    """Python code of your own that answers: a model in this process, a rule, a fake."""

    backend: Literal["python"] = "python"
    model: Annotated[str, AfterValidator(_check_code)]
    """``path/to/file.py:Name``, relative to the working directory, or ``package.module:Name``: a
    class with ``complete``, or a function that takes messages and returns a text."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of its constructor."""
    scripted: bool = False
    """Whether it is a scripted model; results say so."""
    prices: Prices | None = None
    """Prices for answers that report tokens and no cost; unset, the reported cost is used."""

    @property
    def is_scripted(self) -> bool:
        """Whether the settings declare it."""
        return self.scripted

    @property
    def takes_seeds(self) -> bool:
        """Always."""
        return True

    @property
    def reports_cost(self) -> bool:
        """Always."""
        return True

    def secrets(self) -> list[str]:
        """Return the settings' values that look like secrets."""
        return secrets_in(self.settings)


class ScriptedConfig(ModelConfig):
    """A deterministic model that needs no endpoint: for tests and the demo."""

    backend: Literal["scripted"] = "scripted"
    model: str
    """Name of the scripted model."""
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of turns with a random action: for ``household`` an admissible one, for ``clerk`` a
    random answer, for ``seeker`` a random search or answer.
    Above 0, all random choices depend on the prompt as well as the seed: the two sides of a
    gate's comparison draw independently, and a run still repeats exactly."""

    @field_validator("model")
    @classmethod
    def _check_name(cls, name: str) -> str:
        problem = why_not_scripted(name)
        if problem:
            raise ValueError(problem)
        return name

    @model_validator(mode="after")
    def _check_noise(self) -> "ScriptedConfig":
        problem = why_not_scripted(self.model, self.noise)
        if problem:
            raise ValueError(problem)
        return self

    @property
    def is_scripted(self) -> bool:
        """Always."""
        return True

    @property
    def takes_seeds(self) -> bool:
        """Always."""
        return True


def parse_model_config(settings: Mapping[str, Any], where: str = "") -> ModelConfig:
    """Read the settings of one model, or raise a `ConfigError` with one line per problem."""
    try:
        return ModelConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain_validation_error(error, ModelConfig, where)) from None

"""What all sections of a configuration share, and every path that a schema may set."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError

from skillwright.core import ConfigError
from skillwright.models import explain_validation_error
from skillwright.models.frozen import Frozen

S = TypeVar("S", bound="Section")


class Section(Frozen):
    """A mapping of a configuration: frozen, and closed to unknown keys."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


def validated_section(kind: type[S], values: Mapping[str, Any], where: str = "") -> S:
    """Check plain values against a schema; ``where`` they come from is said in messages.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = explain_validation_error(error, kind).splitlines()
        begin = f"{where}: " if where else ""
        raise ConfigError("\n".join(begin + problem for problem in problems)) from None


def kind_unless_given(kind: str) -> BeforeValidator:
    """Let the members of a union be told apart where nothing says which one is meant."""

    def fill(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(fill)

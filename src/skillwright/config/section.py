"""What all sections of a configuration share, and every path that a schema may set."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from skillwright.core import ConfigError
from skillwright.models import explain_validation_error
from skillwright.models.validation import Frozen

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
    """Let the members of a union be distinguished where nothing says which one is meant."""

    def fill(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(fill)


# Every dotted path that a configuration may set, read off its schema.


class KeyPath(NamedTuple):
    """A dotted place such as ``train.batch_size``; any key may stand below an open one."""

    path: str
    is_open: bool = False


@cache
def key_paths(model: type[BaseModel]) -> tuple[KeyPath, ...]:
    """List every path of a model, sections included, those of all members of a union too."""
    schema = model.model_json_schema()
    found = {place.path: place for place in _below(schema, schema.get("$defs", {}), "")}
    return tuple(found.values())


def _below(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str
) -> Iterator[KeyPath]:
    for option in _options(schema, definitions):
        for name, inner in option.get("properties", {}).items():
            path = f"{prefix}{name}"
            yield KeyPath(path, any(map(_is_open, _options(inner, definitions))))
            yield from _below(inner, definitions, f"{path}.")


def _options(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    branches = [branch for word in ("anyOf", "oneOf") for branch in schema.get(word, ())]
    if not branches:
        yield schema
    for branch in branches:
        yield from _options(branch, definitions)


def _is_open(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("type") == "object" and schema.get("additionalProperties"))

"""Every dotted path that a configuration may set, read off its schema."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel


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

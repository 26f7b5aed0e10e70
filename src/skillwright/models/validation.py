"""Readable validation errors of configurations and model replies, with suggestions."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import ErrorDetails

from skillwright.core import did_you_mean

_SECRET_NAME = re.compile(
    r"api_?key|secret|passw|authorization|credential|(^|[_-])(token|key)$", re.IGNORECASE
)
_LONGEST_VALUE = 60


def explain_validation_error(error: ValidationError, model: Any, where: str = "") -> str:
    """Translate a pydantic error: one line per problem, with its path and the nearest valid name.

    A line is such as ``unknown key 'agent.modle'. Did you mean 'model'?``. Values are quoted,
    except under names of secrets. ``where`` is the value's path inside its document.
    """
    root = _schema(model)
    return "\n".join(_explain(detail, root, where) for detail in error.errors(include_url=False))


class _Node(NamedTuple):
    """A place in a document: its path, and the schema at it."""

    path: str
    schema: dict[str, Any]


def _schema(model: Any) -> dict[str, Any]:
    try:
        return TypeAdapter(model).json_schema()
    except PydanticInvalidForJsonSchema:
        return {}  # paths are then pydantic's own, without suggestions


def _explain(detail: ErrorDetails, root: dict[str, Any], where: str) -> str:
    location = detail["loc"]
    match detail["type"]:
        case "extra_forbidden":
            parent = _find(location[:-1], root, where)
            path = _join(parent.path, location[-1])
            hint = did_you_mean(str(location[-1]), _keys(parent.schema, root))
            return f"unknown key {path!r}. {hint}"
        case "missing":
            place = _find(location, root, where)
            return f"{place.path!r} is missing{_description(place)}"
        case "union_tag_not_found":
            place = _find(location, root, where)
            path = _join(place.path, _tag_name(place.schema))
            return f"{path!r} is missing. {did_you_mean('', _tags(place.schema))}"
        case "union_tag_invalid":
            place = _find(location, root, where)
            path = _join(place.path, _tag_name(place.schema))
            tag = str(detail["ctx"]["tag"])
            return f"{path!r} is {tag!r}. {did_you_mean(tag, _tags(place.schema))}"
        case "literal_error":
            place = _find(location, root, where)
            known = place.schema.get("enum") or [place.schema.get("const")]
            hint = did_you_mean(str(detail["input"]), [str(value) for value in known])
            return f"{place.path!r} is {_shown(location, detail['input'])}. {hint}"
        case "value_error":
            place = _find(location, root, where)
            problem = detail["msg"].removeprefix("Value error, ")
            return f"{place.path}: {problem}" if place.path else problem
        case _:
            place = _find(location, root, where)
            got = _shown(location, detail["input"])
            return f"{place.path or 'the value'}: {detail['msg']}, not {got}"


def _find(location: Sequence[int | str], root: dict[str, Any], where: str) -> _Node:
    """Return schema and written path of a pydantic location, without union tags and validators."""
    place = _Node(where, _deref(root, root))
    for key in location:
        found = _descend(place.schema, key, root)
        if found is None:
            shown = isinstance(key, int) or not root
            place = _Node(_join(place.path, key) if shown else place.path, place.schema)
        else:
            schema, shown = found
            place = _Node(_join(place.path, key) if shown else place.path, _deref(schema, root))
    return place


def _descend(
    schema: dict[str, Any], key: int | str, root: dict[str, Any]
) -> tuple[dict[str, Any], bool] | None:
    """Return the schema under ``key``, and whether ``key`` is written in the document."""
    if key in schema.get("discriminator", {}).get("mapping", {}):
        return {"$ref": schema["discriminator"]["mapping"][key]}, False
    if key in schema.get("properties", {}):
        return schema["properties"][key], True
    inner = schema.get("items" if isinstance(key, int) else "additionalProperties")
    if isinstance(inner, dict):
        return inner, True
    for option in _options(schema, root):
        if option.get("title") == key:
            return option, False
        found = _descend(option, key, root)
        if found is not None:
            return found
    return None


def _options(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    return [_deref(each, root) for word in ("anyOf", "oneOf") for each in schema.get(word, ())]


def _deref(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].removeprefix("#/$defs/")
    target: dict[str, Any] = root["$defs"][name]
    return {**target, **{key: value for key, value in schema.items() if key != "$ref"}}


def _keys(schema: dict[str, Any], root: dict[str, Any]) -> list[str]:
    inner = (key for option in _options(schema, root) for key in _keys(option, root))
    return [*schema.get("properties", {}), *inner]


def _tags(schema: dict[str, Any]) -> list[str]:
    return list(schema.get("discriminator", {}).get("mapping", {}))


def _tag_name(schema: dict[str, Any]) -> str:
    return str(schema.get("discriminator", {}).get("propertyName", "type"))


def _join(path: str, key: int | str) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _description(place: _Node) -> str:
    text = place.schema.get("description", "")
    return f": {' '.join(text.split())}" if text else ""


def _shown(location: Sequence[int | str], value: Any) -> str:
    """Quote a plain value; show only the type of a structure, and hide possible secrets."""
    if any(_SECRET_NAME.search(str(key)) for key in location):
        return "what was given (hidden)"
    if value is not None and not isinstance(value, str | int | float | bool):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
"""The name of an environment variable."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A number in [0, 1]."""

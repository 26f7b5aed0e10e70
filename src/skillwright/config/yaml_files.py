"""Read YAML files as plain values: inheritance by ``_base_``, merging, dotted overrides."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError

from skillwright.core import ConfigError, DataError, did_you_mean
from skillwright.core.fence import escaped_controls
from skillwright.core.jsonio import read_text
from skillwright.models import explain_validation_error

S = TypeVar("S", bound=BaseModel)


def validated_section(kind: type[S], values: Mapping[str, Any], where: str = "") -> S:
    """Validate plain values against a schema.

    Args:
        kind: The schema.
        values: Sections and keys.
        where: Source of the values, which begins each message.

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
    """Return a validator that adds a default ``kind`` to a mapping without one."""

    def fill(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(fill)


class KeyPath(NamedTuple):
    """A dotted path such as ``train.batch_size``; below an open one any key is allowed."""

    path: str
    is_open: bool = False


@cache
def key_paths(model: type[BaseModel]) -> tuple[KeyPath, ...]:
    """List the paths of all sections and keys of a model, including all members of unions."""
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


BASE_KEY = "_base_"
_SUFFIXES = (".yaml", ".yml")

# PyYAML implements YAML 1.1, in which 1e-3 is a string; in YAML 1.2 it is a number.
_FLOAT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)")
_FLOAT_STARTS = list("-+.0123456789")
# In YAML 1.1, 1:1:1 is a number to the base of 60; in YAML 1.2 it is a string.
_BASE_60 = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?")

# Mappings that differ in one of these keys are not merged.
_DISCRIMINATORS = ("kind", "backend")

Values = dict[str, Any]


class Layer(NamedTuple):
    """The values of one file in an inheritance chain, without its ``_base_``."""

    path: Path
    values: Values


class StrictLoader(yaml.SafeLoader):
    """Reads YAML without Python's types; refuses keys that are no text or occur twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping; refuse keys that are no text or occur twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    None, None, f"a key must be text; write '{key.value}' in quotes", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands here twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Quote texts with unusual line breaks; PyYAML would read them back as spaces."""
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
for _side in (StrictLoader, _Dumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, _FLOAT_STARTS)
for _start in "-+0123456789":
    # First, because PyYAML takes the first resolver that matches.
    StrictLoader.yaml_implicit_resolvers[_start].insert(0, ("tag:yaml.org,2002:str", _BASE_60))


def read_layers(path: Path) -> list[Layer]:
    """Read a file and the files that it inherits from, the base first.

    ``_base_`` is one path, relative to the file that names it.

    Raises:
        ConfigError: A file is missing, unreadable or no mapping; its YAML is malformed (with line
            and column); or a file inherits from itself (with the chain).
    """
    layers: list[Layer] = []
    chain: list[Path] = []
    named_by = ""
    while True:
        if path.resolve() in [one.resolve() for one in chain]:
            shown = " -> ".join(str(one) for one in (*chain, path))
            raise ConfigError(f"Circular _base_ inheritance: {shown}. Remove one _base_.")
        chain.append(path)
        values = _read_file(path, named_by)
        base = values.pop(BASE_KEY, None)
        layers.append(Layer(path, values))
        if base is None:
            return layers[::-1]
        if not isinstance(base, str) or not base:
            raise ConfigError(
                f"{path}: {BASE_KEY} is {base!r}; it is one path, relative to this file"
            )
        named_by = f" (the {BASE_KEY} of {str(path)!r})"
        path = path.parent / base


def merge(base: Mapping[str, Any], child: Mapping[str, Any]) -> Values:
    """Merge ``child`` into ``base``: mappings key by key; any other value is replaced.

    A mapping whose ``kind`` or ``backend`` differs from that in ``base`` is replaced as a whole.
    """
    merged = dict(base)
    for key, value in child.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and _are_alike(old, value):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def merge_layers(layers: Iterable[Layer]) -> Values:
    """Merge layers in order; later ones override."""
    merged: Values = {}
    for layer in layers:
        merged = merge(merged, layer.values)
    return merged


def parse_overrides(overrides: Sequence[str], model: type[BaseModel]) -> Values:
    """Read ``section.key=value`` settings into nested values; later ones override.

    Values are read as YAML; an empty value is the empty string. ``model`` defines the paths.

    Raises:
        ConfigError: A setting has no ``=``, its value is no YAML, or its path is unknown (the
            message names the nearest).
    """
    places = key_paths(model)
    paths = {place.path for place in places}
    free = tuple(f"{place.path}." for place in places if place.is_open)
    values: Values = {}
    for setting in overrides:
        path, equals, text = setting.partition("=")
        path = path.strip()
        if not equals:
            raise ConfigError(f"--set {setting!r} has no '='; write section.key=value")
        if path not in paths and not path.startswith(free):
            raise ConfigError(f"--set {setting!r}: no key {path!r}. {nearest_path(path, paths)}")
        value = _parse(text, f"--set {setting!r}") if text.strip() else ""
        values = merge(values, nested(path, value))
    return values


def nested(path: str, value: Any) -> Values:
    """Nest a value under its dotted path: ``nested("a.b", 1)`` is ``{"a": {"b": 1}}``."""
    key, dot, rest = path.partition(".")
    return {key: nested(rest, value) if dot else value}


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return YAML text that `read_layers` reads as the same values, in the same order."""
    text = yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    # PyYAML does not escape bidirectional controls; scalars with them are in double quotes.
    return escaped_controls(text)


def _read_file(path: Path, named_by: str) -> Values:
    if not path.exists():
        raise ConfigError(f"there is no config file {str(path)!r}{named_by}. {_nearest_file(path)}")
    try:
        text = read_text(path, "config file")
    except DataError as error:
        raise ConfigError(str(error)) from error
    values = _parse(text, str(path))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path}: the file holds a {type(values).__name__}; write sections such as 'train:'"
        )
    return values


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{where}{at}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an impossible date, a huge number
        raise ConfigError(f"{where}: {error}") from error


def _nearest_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f"There is no folder {str(path.parent)!r} either."
    names = [other.name for other in path.parent.iterdir() if other.suffix in _SUFFIXES]
    if not names:
        return f"The folder {str(path.parent)!r} holds no YAML files."
    return did_you_mean(path.name, names)


def nearest_path(path: str, known: Iterable[str]) -> str:
    """Suggest a known dotted path, by its last part or by similarity."""
    paths = set(known)
    section, _, leaf = path.rpartition(".")
    same_leaf = [one for one in paths if one.rpartition(".")[2] == leaf]
    near = get_close_matches(path, sorted(paths), n=1, cutoff=0.75)
    if same_leaf or near:
        return did_you_mean(path, near or same_leaf)
    same_section = [one for one in paths if one.rpartition(".")[0] == section]
    return did_you_mean(path, same_section or [one for one in paths if "." not in one])


def _are_alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return all(old[name] == new[name] for name in _DISCRIMINATORS if name in old and name in new)

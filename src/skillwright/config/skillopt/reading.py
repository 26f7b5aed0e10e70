"""SkillOpt's names: its files as plain dicts (`skillopt.config`), its options on a command line.

Source: SkillOpt (microsoft/SkillOpt), its config loader and the options of its scripts.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from skillwright.config.skillopt.files import SECTIONS, flatten_layer, resolve_layers
from skillwright.config.skillopt.keys import KEYS
from skillwright.config.yaml_files import Layer, Values, merge, read_layers
from skillwright.core import ConfigError

_RETIRED: Final = frozenset({"max_analyst_rounds", "codex_exec_full_auto"})
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Values:
    """Read a file, structured or flat, over those that it inherits from, in the file's own form.

    Raises:
        ValueError: A file is missing or malformed, or inherits from itself
            (``Circular _base_ inheritance``).
    """
    try:
        layers = read_layers(Path(path))
        merged: Values = {}
        for layer in layers:
            merged = merge(_without(merged, layer), layer.values)
    except ConfigError as error:  # there it is a ValueError, which callers catch
        raise ValueError(str(error)) from error
    return apply_overrides(merged, overrides)


def is_structured(config: Mapping[str, Any]) -> bool:
    """Tell a configuration with sections from a flat one."""
    return any(isinstance(config.get(name), Mapping) for name in SECTIONS)


def flatten_config(config: Mapping[str, Any]) -> Values:
    """Return a configuration by flat names, with the defaults of the shipped base file.

    Keys of the ``env`` section pass by their bare names.

    Raises:
        ValueError: A key or a value is misspelt; the message names the right one.
    """
    layer = Layer(Path("configuration"), dict(config))
    try:
        for name in _RETIRED & flatten_layer(layer).keys():
            warnings.warn(f"{name} is retired and has no effect", FutureWarning, stacklevel=2)
        return resolve_layers([layer])
    except ConfigError as error:
        raise ValueError(str(error)) from error


def apply_overrides(config: Mapping[str, Any], options: Sequence[str] = ()) -> Values:
    """Lay ``key=value`` options over a configuration; keys are dotted or flat.

    ``true``, ``yes``, ``false``, ``no`` and numbers are read as such, anything else is text.

    Raises:
        ValueError: An option has no ``=``.
    """
    merged = dict(config)
    for option in options:
        key, equals, text = option.partition("=")
        if not equals:
            raise ValueError(f"{option!r} has no '='; write key=value")
        merged = merge(merged, _placed(key.strip(), cast(text), is_structured(config)))
    return merged


def _placed(key: str, value: Any, in_sections: bool) -> Values:
    """Return a value where it belongs in a structured or a flat configuration."""
    by_flat = {one.flat: one.dotted for one in KEYS}
    by_dotted = {one.dotted: one.flat for one in KEYS}
    if in_sections:
        section, dot, leaf = by_flat.get(key, key).partition(".")
        return {section: {leaf: value}} if dot else {"env": {key: value}}
    return {by_dotted.get(key, key.removeprefix("env.")): value}


def cast(text: str) -> Any:
    """Read a value of the command line: a word for true or false, a number, or else text."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if not _NUMBER.fullmatch(word):
        return text
    return int(word) if word.lstrip("+-").isdigit() else float(word)


def _without(base: Mapping[str, Any], child: Layer) -> Values:
    """Return a base without what its child says in either form."""
    said = flatten_layer(child).keys()
    names = {one.dotted: one.flat for one in KEYS}
    left: Values = {}
    for name, value in base.items():
        if name in SECTIONS and isinstance(value, Mapping):
            left[name] = {
                leaf: inner
                for leaf, inner in value.items()
                if names.get(f"{name}.{leaf}", leaf) not in said
            }
        elif names.get(name, name) not in said:
            left[name] = value
    return left


NAMES: Final[Mapping[str, Any]] = {
    "load_config": load_config,
    "flatten_config": flatten_config,
    "is_structured": is_structured,
    "apply_overrides": apply_overrides,
}

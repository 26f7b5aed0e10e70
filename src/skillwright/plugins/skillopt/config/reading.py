"""SkillOpt's files as plain dicts (`skillopt.config`), and its options on the command line.

Source: SkillOpt (microsoft/SkillOpt), its config loader and the options of its scripts.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from skillwright.config.yaml_files import Layer, Values, merge, nearest_path, nested, read_layers
from skillwright.core import ConfigError
from skillwright.plugins.skillopt.config.files import SECTIONS, flatten_layer, resolve_layers
from skillwright.plugins.skillopt.config.keys import ENV_SETTINGS, KEYS, Key

_RETIRED: Final = frozenset({"max_analyst_rounds", "codex_exec_full_auto"})
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}
_NUMBER: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Values:
    """Read a file, structured or flat, merged with those it inherits from, in the file's own form.

    Raises:
        ValueError: A file is missing or malformed, or inherits from itself
            (``Circular _base_ inheritance``).
    """
    try:
        layers = read_layers(Path(path))
        merged: Values = {}
        for layer in layers:
            merged = merge(_without(merged, layer), layer.values)
    except ConfigError as error:  # a ValueError in the original, which callers catch
        raise ValueError(str(error)) from error
    return apply_overrides(merged, overrides)


def is_structured(config: Mapping[str, Any]) -> bool:
    """Tell whether a configuration has sections."""
    return any(isinstance(config.get(name), Mapping) for name in SECTIONS)


def flatten_config(config: Mapping[str, Any]) -> Values:
    """Convert a configuration to flat names, with the defaults of the shipped base file.

    Keys of the ``env`` section keep their names.

    Raises:
        ValueError: A key or a value is misspelled; the message names the right one.
    """
    layer = Layer(Path("configuration"), dict(config))
    try:
        for name in _RETIRED & flatten_layer(layer).keys():
            warnings.warn(f"{name} is retired and has no effect", FutureWarning, stacklevel=2)
        return resolve_layers([layer])
    except ConfigError as error:
        raise ValueError(str(error)) from error


def apply_overrides(config: Mapping[str, Any], options: Sequence[str] = ()) -> Values:
    """Apply ``key=value`` options to a configuration; keys are dotted or flat.

    ``true``, ``yes``, ``false``, ``no`` and numbers are converted, other values are texts.

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
    """Return a value under its key, for a structured or a flat configuration."""
    by_flat = {one.flat: one.dotted for one in KEYS}
    by_dotted = {one.dotted: one.flat for one in KEYS}
    if in_sections:
        section, dot, leaf = by_flat.get(key, key).partition(".")
        return {section: {leaf: value}} if dot else {"env": {key: value}}
    return {by_dotted.get(key, key.removeprefix("env.")): value}


def cast(text: str) -> Any:
    """Convert a value of the command line to a boolean, a number, or text."""
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if not _NUMBER.fullmatch(word):
        return text
    return int(word) if word.lstrip("+-").isdigit() else float(word)


def _without(base: Mapping[str, Any], child: Layer) -> Values:
    """Return a base without the keys that its child sets in either form."""
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


# Settings on the command line in SkillOpt's names, by ``--cfg-options`` or ``--set``. An ambiguous
# name is ours under ``--set``, and SkillOpt's under ``--cfg-options``.
#
# Source: SkillOpt (microsoft/SkillOpt), the options of its scripts.


_KEYS = {name: key for key in KEYS for name in (key.dotted, key.flat, *key.aliases)}
_FROM = Path("the command line")


class Sorted(NamedTuple):
    """Sorted settings: ``key=value`` in our names, and sections in SkillOpt's names."""

    ours: list[str]
    theirs: Values

    @property
    def layer(self) -> list[Layer]:
        """The settings in SkillOpt's names as a layer; empty without any."""
        return [Layer(_FROM, self.theirs)] if self.theirs else []


def sort_options(
    overrides: Sequence[str], options: Sequence[str], known: Iterable[str], *, is_theirs: bool
) -> Sorted:
    """Sort settings into those in our names (``known``) and those in SkillOpt's.

    In ``overrides`` (``--set``), names without a section are SkillOpt's only if the file is;
    in ``options`` (``--cfg-options``), SkillOpt's names take precedence.

    Raises:
        ConfigError: One of ``options`` has no ``=``, or an unknown name.
    """
    paths, ours, theirs = set(known), [], Values()
    for option in options:
        name, equals, text = (part.strip() for part in option.partition("="))
        if not equals:
            raise ConfigError(f"--cfg-options {option!r} has no '='; write section.key=value")
        place = _place(name)
        if place is None and name not in paths:
            hint = nearest_path(name, [key.dotted for key in KEYS])
            raise ConfigError(f"--cfg-options {option!r}: no key {name!r}. {hint}")
        if place is None:
            ours.append(option)
        else:
            theirs = merge(theirs, nested(place, cast(text)))
    for override in overrides:
        name, equals, text = (part.strip() for part in override.partition("="))
        may_be = equals and name not in paths and (is_theirs or "." in name)
        place = _place(name, env_keys=ENV_SETTINGS) if may_be else None
        if place is None:
            ours.append(override)
        else:
            theirs = merge(theirs, nested(place, cast(text)))
    return Sorted(ours, theirs)


def in_our_names(theirs: Values) -> list[str]:
    """Translate settings from SkillOpt's names to ours, for a file of ours.

    Raises:
        ConfigError: A setting does not correspond to a single key of ours.
    """
    return [
        _in_our_name(f"{section}.{leaf}", value)
        for section, leaves in theirs.items()
        for leaf, value in leaves.items()
    ]


def _in_our_name(name: str, value: object) -> str:
    key = _KEYS.get(name)
    if key is None or not key.copied or not key.ours:
        raise ConfigError(
            f"{name!r} is a key of SkillOpt's, and the file is one of ours: {_why(key)}"
        )
    said = str(value).lower() if isinstance(value, bool) else value
    return f"{key.ours}={said}"


def _why(key: Key | None) -> str:
    if key is None:
        return "say it below env.config"
    return f"set {key.ours} instead" if key.ours else key.reason


def _place(name: str, env_keys: Iterable[str] | None = None) -> str | None:
    """Return the dotted path of a SkillOpt name, or ``None`` if it is unknown.

    ``env_keys`` are names that count as keys of the environment; ``None`` accepts any.
    """
    if name in _KEYS:
        return _KEYS[name].dotted
    section, dot, leaf = name.rpartition(".")
    if dot and section != "env":
        return None
    is_taken = leaf in env_keys if env_keys is not None else bool(dot) or leaf in ENV_SETTINGS
    return f"env.{leaf}" if is_taken else None

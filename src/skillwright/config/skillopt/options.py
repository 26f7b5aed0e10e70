"""Settings on the command line by SkillOpt's names: ``--cfg-options``, and ``--set`` too.

A name that is ours means ours under ``--set``; under ``--cfg-options`` one that is theirs means
theirs.

Source: SkillOpt (microsoft/SkillOpt), the options of its scripts.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from skillwright.config.skillopt.keys import ENV_SETTINGS, KEYS, Key
from skillwright.config.skillopt.reading import cast
from skillwright.config.yaml_files import Layer, Values, merge, nearest_path, nested
from skillwright.core import ConfigError

_KEYS = {name: key for key in KEYS for name in (key.dotted, key.flat, *key.aliases)}
_FROM = Path("the command line")


class Sorted(NamedTuple):
    """Settings by whose names they have: ``key=value`` in ours, and in sections of theirs."""

    ours: list[str]
    theirs: Values

    @property
    def layer(self) -> list[Layer]:
        """What is laid over a file of theirs; nothing where there is none."""
        return [Layer(_FROM, self.theirs)] if self.theirs else []


def sort_options(
    overrides: Sequence[str], options: Sequence[str], known: Iterable[str], *, is_theirs: bool
) -> Sorted:
    """Tell settings in our names (``known``) from those in theirs.

    Of ``overrides`` (``--set``) names without a section are theirs only where the file is theirs;
    ``options`` (``--cfg-options``) are in their names first.

    Raises:
        ConfigError: One of ``options`` has no ``=``, or a name that is nobody's.
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
    """Return settings of theirs by our names, for a file of ours.

    Raises:
        ConfigError: One means something that no single key of ours does.
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
    """Return where a name of theirs stands in sections, or ``None`` for one that is none.

    A key of an environment's own has no list; ``env_keys`` are those that are taken for one.
    """
    if name in _KEYS:
        return _KEYS[name].dotted
    section, dot, leaf = name.rpartition(".")
    if dot and section != "env":
        return None
    is_taken = leaf in env_keys if env_keys is not None else bool(dot) or leaf in ENV_SETTINGS
    return f"env.{leaf}" if is_taken else None

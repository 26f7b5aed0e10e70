"""Keys and values that have new names; the old ones are read for one release."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import ConfigError

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Renamed:
    """A key that has a new name, in the same section.

    Attributes:
        old: Its old dotted path.
        name: The last part of its new path.
        values: Old values that have a new name too.
    """

    old: str
    name: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def new(self) -> str:
        """Its new dotted path."""
        section, dot, _ = self.old.rpartition(".")
        return f"{section}{dot}{self.name}"


RENAMED: Final = (
    Renamed("distil", "distill"),  # stored name
    Renamed("bank.told", "inject", {"nothing": "none"}),  # stored name
    Renamed("evaluation.gate.family_veto", "task_type_veto"),  # stored name
)
"""All of them."""

_BY_OLD: Final = {row.old: row for row in RENAMED}
_BY_NEW: Final = {row.new: row for row in RENAMED}


def new_path(path: str) -> str:
    """Return a dotted path by its new name."""
    for row in RENAMED:
        if path == row.old or path.startswith(f"{row.old}."):
            return row.new + path.removeprefix(row.old)
    return path


def renamed(values: Mapping[str, Any], where: str) -> tuple[Values, list[str]]:
    """Return values by their new names, and a note about each old name.

    Raises:
        ConfigError: A key is given by both its names; one line per key.
    """
    found = list(_found(values))
    both = [row for row, has_new in found if has_new]
    if both:
        problems = (f"{where}: {row.old!r} is now {row.new!r}; give only that" for row in both)
        raise ConfigError("\n".join(problems))
    notes = [f"{where}: {row.old!r} is now {row.new!r}{_also(row)}" for row, _ in found]
    return (_by_new_names(values) if found else dict(values)), notes


def in_old_names(values: Mapping[str, Any], prefix: str = "") -> Values:
    """Return values as earlier versions named them, which stored their digests."""
    left: Values = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        row = _BY_NEW.get(path)
        if row is None:
            left[name] = in_old_names(value, f"{path}.") if isinstance(value, Mapping) else value
        else:
            olds = {new: old for old, new in row.values.items()}
            name = row.old.rpartition(".")[2]
            left[name] = olds.get(value, value) if isinstance(value, str) else value
    return left


def _also(row: Renamed) -> str:
    return "".join(f", and {old!r} is {new!r}" for old, new in row.values.items())


def _found(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[Renamed, bool]]:
    for name, value in values.items():
        row = _BY_OLD.get(f"{prefix}{name}")
        if row is not None:
            yield row, row.name in values
        elif isinstance(value, Mapping):
            yield from _found(value, f"{prefix}{name}.")


def _by_new_names(values: Mapping[str, Any], prefix: str = "") -> Values:
    left: Values = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        row = _BY_OLD.get(path)
        if row is None:
            left[name] = _by_new_names(value, f"{path}.") if isinstance(value, Mapping) else value
        else:
            left[row.name] = row.values.get(value, value) if isinstance(value, str) else value
    return left

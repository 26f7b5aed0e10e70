"""Plug-ins by entry point: the names of a group, and the object behind a name.

A package declares an entry point, and it is found by its name:

    [project.entry-points."skillwright.gates"]
    sign_test = "my_package.gates:SignTest"

Names are listed without an import. ``skillwright --help`` lists them, so this module imports little
(`importlib.metadata`, which reads the same files, takes a fifth of that command's time to import).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

_PREFIX: Final = "skillwright."


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A name that an installed package gives to an object of its own.

    Attributes:
        group: What the object is for, such as ``skillwright.envs``.
        name: The name within the group.
        value: ``package.module:attribute``.
        package: The distribution that declares it.
    """

    group: str
    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import the object.

        Raises:
            DataError: The import fails; the message names the package, the reason and the next
                move.
        """
        module, _, attribute = self.value.partition(":")
        try:
            found = import_module(module)
            return attrgetter(attribute)(found) if attribute else found
        except Exception as error:  # the code of a plug-in can raise anything
            from skillwright.core import DataError

            raise DataError(
                f"{self.name!r} of {self.group} cannot be loaded from {self.value!r} "
                f"({type(error).__name__}: {error}). {self._next_move(module, error)}"
            ) from error

    def _next_move(self, module: str, error: Exception) -> str:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and not f"{module}.".startswith(f"{missing}."):
            return (
                f"Install {missing.partition('.')[0]!r}, which the package {self.package!r} needs."
            )
        return f"Update the package {self.package!r}, or uninstall it."


def entry_points(group: str) -> Mapping[str, EntryPoint]:
    """List the entry points of a group by name, in the order in which they are declared."""
    return _groups(tuple(sys.path)).get(group, {})


def entry_point(group: str, name: str, kind: str) -> EntryPoint:
    """Find an entry point by name.

    Args:
        group: Its group.
        name: Its name.
        kind: What the group holds, for the message, such as ``tracker``.

    Raises:
        DataError: There is none of that name; the message names the nearest.
    """
    known = entry_points(group)
    if name not in known:
        from skillwright.core import DataError, did_you_mean

        raise DataError(f"no {kind} {name!r}. {did_you_mean(name, known)}")
    return known[name]


@cache
def _groups(folders: tuple[str, ...]) -> dict[str, dict[str, EntryPoint]]:
    """Read the entry points of all distributions in some folders; the first of a name is taken."""
    groups: dict[str, dict[str, EntryPoint]] = {}
    seen = set()
    for folder in folders:
        for file in sorted(Path(folder).glob("*-info/entry_points.txt")):
            package = file.parent.name.partition("-")[0]
            if package in seen:  # hidden by the copy in an earlier folder
                continue
            seen.add(package)
            for point in _read(file, package):
                groups.setdefault(point.group, {}).setdefault(point.name, point)
    return groups


def _read(file: Path, package: str) -> list[EntryPoint]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # an installation that is damaged, or in progress
        return []
    points, group = [], ""
    for line in map(str.strip, text.splitlines() if f"[{_PREFIX}" in text else ()):
        name, equals, value = line.partition("=")
        if line.startswith("["):
            group = line.strip("[]")
        elif equals and group.startswith(_PREFIX) and not line.startswith("#"):
            value = value.partition("[")[0].replace(" ", "")  # extras are out of use
            points.append(EntryPoint(group, name.strip(), value, package))
    return points

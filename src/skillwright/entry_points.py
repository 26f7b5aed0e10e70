"""Plug-ins by entry point: the names of a group, and the object behind a name.

A package declares an entry point, and it is found by its name:

    [project.entry-points."skillwright.gates"]
    sign_test = "my_package.gates:SignTest"

Names are listed without an import. ``skillwright --help`` lists them, so this module imports little
(`importlib.metadata`, which reads the same files, takes a fifth of that command's time to import).
"""

import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, NamedTuple

_PREFIX: Final = "skillwright."


class Command(NamedTuple):
    """A command of an installed package, named by an entry point of ``skillwright.commands``.

    The name of the entry point is the name of the command; ``data.webshop`` adds the command
    ``webshop`` to the group ``data``. Help shows a command without importing it, so the module of
    a `Command` should import nothing else.

    Attributes:
        place: ``package.module:attribute``, a function or a `typer.Typer`; imported when it runs.
        summary: The first line of its help.
        heading: The heading of the program's help that it stands under.
        before: The command that it is listed before; ``""`` lists it last.
    """

    place: str
    summary: str
    heading: str = "Plug-ins"
    before: str = ""


class EntryPoint(NamedTuple):
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
        try:
            names = sorted(os.listdir(folder or "."))  # noqa: PTH208 - as below
        except OSError:  # a zip file, or a folder that is gone
            continue
        for name in names:
            package = name.partition("-")[0]
            if not name.endswith("-info") or package in seen:  # seen: hidden by an earlier folder
                continue
            seen.add(package)
            for point in _read(f"{folder}/{name}/entry_points.txt", package):
                groups.setdefault(point.group, {}).setdefault(point.name, point)
    return groups


def _read(path: str, package: str) -> list[EntryPoint]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path object takes as long again
            text = file.read()
    except (OSError, UnicodeDecodeError):  # most packages have no entry points
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

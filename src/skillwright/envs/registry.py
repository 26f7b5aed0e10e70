"""Find environments by name, import path or file, and write a project for a new one."""

import keyword
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.core.found_code import find_code
from skillwright.core.jsonio import dumps, write_text
from skillwright.entry_points import entry_points
from skillwright.envs.text_env import TextEnv

ENTRY_POINT_GROUP = "skillwright.envs"

PREFIX_GROUP = "skillwright.env_prefixes"
"""Entry-point group for environments of other systems: the entry point ``prefix`` is a function
that returns the class of ``prefix:name``."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """The location of an environment class.

    Attributes:
        name: The name for `make`.
        entry_point: ``package.module:Class`` or ``path/to/file.py:Class``; imported on first use.
        env_config: Default settings.
    """

    name: str
    entry_point: str
    env_config: object | None = None

    def load(self) -> type[TextEnv]:
        """Import the class.

        Raises:
            DataError: The module or class is missing, or is no environment; the message contains
                the import error.
        """
        found = self.find()
        if not (isinstance(found, type) and hasattr(found, "init") and hasattr(found, "step")):
            raise DataError(
                f"{self.entry_point!r} is not a text environment: it needs init() and step()"
            )
        return found

    def find(self) -> Any:
        """Import the object that the entry point names.

        Raises:
            DataError: The module or the name is missing; the message contains the import error.
        """
        prefix, _, rest = self.entry_point.partition(":")
        source = entry_points(PREFIX_GROUP).get(prefix)
        if source is not None:
            return source.load()(rest)
        return find_code(self.entry_point, f"environment {self.name!r}")


_registered: dict[str, EnvSpec] = {}


def register(name: str, entry_point: str, env_config: object | None = None) -> None:
    """Register an environment class under a name.

    Raises:
        DataError: The name is taken by another class. `deregister` it first.
    """
    new = EnvSpec(name, entry_point, env_config)
    old = _registered.get(name)
    if old is not None and old != new:
        raise DataError(
            f"environment {name!r} is already registered as {old.entry_point!r}; "
            "choose another name, or deregister it first"
        )
    _registered[name] = new


def deregister(name: str) -> None:
    """Remove a registered name; raise `DataError` if there is none."""
    if _registered.pop(name, None) is None:
        raise DataError(f"no environment {name!r} is registered. {did_you_mean(name, _registered)}")


def specs() -> dict[str, EnvSpec]:
    """List all environments with a name, sorted; registered ones override entry points."""
    return dict(sorted({**_installed(), **_registered}.items()))


def spec(name: str) -> EnvSpec:
    """Find an environment by name, import path (``pkg.mod:Class``) or file (``env.py:Class``).

    ``skyrl_gym:gsm8k`` is an environment of SkyRL-Gym, ``verifiers:wordle`` one of verifiers.

    Raises:
        DataError: The name is unknown; the message contains the nearest one.
    """
    if name in _registered:
        return _registered[name]
    if ":" in name:
        return EnvSpec(name, name)
    known = specs()
    if name not in known:
        raise DataError(
            f"no environment {name!r}. {did_you_mean(name, known)} "
            "Name your own by import path ('package.module:Class') or file ('env.py:Class')."
        )
    return known[name]


def make(
    name: str, env_config: object | None = None, extras: dict[str, Any] | None = None
) -> TextEnv:
    """Build one episode's environment.

    Raises:
        DataError: The name is unknown, or its class cannot be imported.
    """
    found = spec(name)
    config = found.env_config if env_config is None else env_config
    return found.load()(env_config=config, extras=extras)


@cache
def _installed() -> dict[str, EnvSpec]:
    points = entry_points(ENTRY_POINT_GROUP)
    return {point.name: EnvSpec(point.name, point.value) for point in points.values()}


# The project of a new benchmark, which passes the checks and trains offline without changes.


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_FILES: Final = {
    "README.md.in": "README.md",
    "env.py.in": "env.py",
    "train.yaml.in": "train.yaml",
    "models.py.in": "models.py",
    "test.py.in": "test_{name}.py",
}
_SHELVES: Final = {"glass": "top", "books": "middle", "tools": "bottom", "plants": "window"}
_WEIGHTS: Final = range(1, 25)


def write_project(name: str, parent: Path) -> list[Path]:
    """Write a project into a new folder and return its files."""
    _check_name(name)
    folder = parent / name
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise DataError(
            f"{str(folder)!r} is there already; choose another name, or move it away first"
        )
    facts = {"name": name, "class_name": class_name(name), "title": name.replace("_", " ")}
    template = files("skillwright.envs") / "template"
    texts = {
        target.format(name=name): Template(
            (template / source).read_text(encoding="utf-8")
        ).substitute(facts)
        for source, target in _FILES.items()
    }
    texts["tasks.jsonl"] = "".join(f"{dumps(task)}\n" for task in _tasks())
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def class_name(name: str) -> str:
    """Return the class name of a project: ``MyBench`` for ``my_bench``."""
    return "".join(part.capitalize() for part in name.split("_"))


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) and not keyword.iskeyword(name):
        return
    better = re.sub(r"\W+|_+", "_", name.lower(), flags=re.ASCII).strip("_")
    if not _NAME.fullmatch(better) or keyword.iskeyword(better):
        better = f"bench_{better}".rstrip("_")
    raise DataError(
        f"{name!r} cannot name a Python module; use small letters, digits and '_', begin with a "
        f"letter, such as {better!r}"
    )


def _tasks() -> list[dict[str, object]]:
    return [
        {
            "id": f"{parcel}-{weight:02}",
            "task_type": parcel,
            "parcel": parcel,
            "weight_kg": weight,
            "shelf": shelf,
        }
        for weight in _WEIGHTS
        for parcel, shelf in _SHELVES.items()
    ]

"""Environments by name: ours, those of installed packages, and those of a file or import path."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from skillwright.core import DataError, did_you_mean
from skillwright.core.jsonio import text_digest
from skillwright.envs.text_env import TextEnv

ENTRY_POINT_GROUP = "skillwright.envs"


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Where an environment class is found.

    Attributes:
        name: The name that `make` takes.
        entry_point: ``package.module:Class`` or ``path/to/file.py:Class``; imported on first use.
        env_config: Settings used where `make` is given none.
    """

    name: str
    entry_point: str
    env_config: object | None = None

    def load(self) -> type[TextEnv]:
        """Import the class.

        Raises:
            DataError: The module or class is missing, or is no environment; the message carries
                the import error.
        """
        found = self.find()
        if not (isinstance(found, type) and hasattr(found, "init") and hasattr(found, "step")):
            raise DataError(
                f"{self.entry_point!r} is not a text environment: it needs init() and step()"
            )
        return found

    def find(self) -> Any:
        """Import what the entry point names, whatever it is.

        Raises:
            DataError: The module or what is in it is missing; the message carries the import error.
        """
        return _find(self.entry_point, self.name)


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
    """Forget a registered name.

    Raises:
        DataError: Nothing is registered under it.
    """
    if _registered.pop(name, None) is None:
        raise DataError(f"no environment {name!r} is registered. {did_you_mean(name, _registered)}")


def specs() -> dict[str, EnvSpec]:
    """List every environment that can be made by name, sorted; registration beats entry points."""
    return dict(sorted({**_installed(), **_registered}.items()))


def spec(name: str) -> EnvSpec:
    """Find an environment by name, import path (``pkg.mod:Class``) or file (``env.py:Class``).

    Raises:
        DataError: Nothing is known under the name; the message names the nearest.
    """
    if name in _registered:
        return _registered[name]
    if ":" in name:
        return EnvSpec(name, name)
    known = specs()
    if name not in known:
        raise DataError(
            f"no environment {name!r}. {did_you_mean(name, known)} "
            "An own one is named by import path ('package.module:Class') or file ('env.py:Class')."
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
    # Asked once: looking through the metadata of all packages takes longer than an episode.
    points = entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: EnvSpec(point.name, point.value) for point in points}


def _find(entry_point: str, name: str) -> Any:
    module_name, _, class_name = entry_point.rpartition(":")
    try:
        module = _import(module_name)
        if hasattr(module, class_name):
            return getattr(module, class_name)
    except (ImportError, AttributeError, OSError, SyntaxError, TypeError, ValueError) as error:
        check = "Check the path, and that its packages are installed."
        if isinstance(error, SyntaxError):  # it was found, and says where
            check = "Correct it there."
        raise DataError(
            f"environment {name!r} cannot be loaded from {entry_point!r}: {error}. {check}"
        ) from error
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    raise DataError(
        f"environment {name!r}: there is no {class_name!r} in {module_name!r}. "
        f"{did_you_mean(class_name, classes)}"
    )


def _import(module_name: str) -> Any:
    if not module_name.endswith(".py"):
        return importlib.import_module(module_name)
    path = Path(module_name).resolve()
    # The whole path tells files apart: there is an env.py in many folders.
    name = f"_skillwright_file_{path.stem}_{text_digest(str(path))[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ImportError(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(found)
    # Registered before it runs, so that classes in it can be pickled.
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module

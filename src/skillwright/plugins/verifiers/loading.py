"""Load environments of `verifiers` by name: tasksets, and packages with ``load_environment()``."""

import importlib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.found_code import import_code
from skillwright.core.jsonio import canonical, text_digest
from skillwright.plugins.verifiers.rollouts import Loaded, as_loaded
from skillwright.plugins.verifiers.tasksets import Taskset, load_taskset, offers_taskset
from skillwright.plugins.verifiers.words import PREFIX, quiet, said

INSTALL: Final = "pip install 'skillwright[verifiers]'"
_TASKSETS: Final = "verifiers.v1.tasksets"  # those that verifiers brings
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


def loaded(name: str, env_config: object | None) -> Loaded | Taskset:
    """Load an environment, once per process and arguments, or raise a `DataError`."""
    given = {} if env_config is None else env_config
    if not isinstance(given, Mapping):
        raise DataError(
            f"{PREFIX}:{name}: env.config holds the arguments of load_environment(), or the "
            "settings of the taskset"
        )
    return _load(name, canonical(dict(given)))


@lru_cache(maxsize=16)
def _load(name: str, arguments: str) -> Loaded | Taskset:
    shown, given = f"{PREFIX}:{name}", json.loads(arguments)
    require_verifiers()
    try:
        with quiet():
            module = _import(name)
            is_taskset = offers_taskset(module)
            # A package may offer both; the older kind needs nothing but verifiers before 0.4.
            if hasattr(module, "load_environment") and (_is_old() or not is_taskset):
                return as_loaded(shown, module.load_environment(**given))
            if is_taskset:
                return load_taskset(shown, _id_of(module), given)
    except DataError:
        raise
    except ModuleNotFoundError as error:
        raise DataError(f"{shown} cannot be loaded: {_what_to_install(name, error)}") from error
    except Exception as error:
        raise DataError(f"{shown} cannot be loaded: {said(error)}.{_too_new(error)}") from error
    raise DataError(f"{name!r} has neither a taskset in its __all__ nor a load_environment()")


def _import(name: str) -> ModuleType:
    """Import the package or file of an environment, or the taskset that verifiers brings."""
    if name.endswith(".py"):
        return import_code(name)
    module = _module_of(name)
    names = [module]
    if "." not in module and importlib.util.find_spec("verifiers.v1") is not None:
        names.insert(0, f"{_TASKSETS}.{module.lower()}")
    for one in filter(None, names):
        if importlib.util.find_spec(one) is not None:
            return import_code(one)
    raise DataError(
        f"no environment {name!r} of verifiers is installed: there is no package {module!r}. "
        "Install it (pip install, or prime env install OWNER/NAME), or name a file: "
        f"{PREFIX}:path/to/env.py"
    )


def _module_of(name: str) -> str:
    return name.rpartition("/")[2].partition("@")[0].replace("-", "_")


def _id_of(module: ModuleType) -> str:
    """Return the name by which verifiers imports a module; a file's has dots, which it refuses."""
    name = module.__name__
    if name.startswith("_skillwright_folder_"):
        name = f"skillwright_taskset_{text_digest(name)[:8]}"
        sys.modules.setdefault(name, module)
    return name.removeprefix(f"{_TASKSETS}.")


def _what_to_install(name: str, error: ModuleNotFoundError) -> str:
    """Name the packages that an environment requires and that are missing, with the command."""
    missing = []
    with suppress(importlib.metadata.PackageNotFoundError):
        for one in importlib.metadata.requires(_module_of(name).replace("_", "-")) or ():
            required, _, marker = one.partition(";")
            if "extra" not in marker and not _is_installed(required):
                missing.append(required.strip())
    wanted = missing or [(error.name or "").partition(".")[0]]
    if wanted == [PREFIX]:
        return f"{error}.{_too_new(error)}"
    return f"{error}; pip install {' '.join(map(repr, wanted))}"


def _is_installed(requirement: str) -> bool:
    found = _REQUIREMENT.match(requirement.strip())
    try:
        return found is None or bool(importlib.metadata.version(found.group()))
    except importlib.metadata.PackageNotFoundError:
        return False


def _too_new(error: Exception) -> str:
    """Say what to do if the error is of an environment that is older than the installed version."""
    if "'verifiers" not in str(error) or _is_old():
        return ""
    version = importlib.metadata.version(PREFIX)
    return (
        f" verifiers {version} plays tasksets only, and this environment is written for an earlier "
        "one: pip install 'verifiers<0.4'"
    )


def _is_old() -> bool:
    return hasattr(require_verifiers(), "MultiTurnEnv")


def require_verifiers() -> Any:
    """Import verifiers, or raise a `DataError` if it is missing."""
    with quiet():
        try:
            return importlib.import_module(PREFIX)
        except ImportError as error:
            raise DataError(f"verifiers is not installed ({error}); {INSTALL}") from error

"""Temporary module paths of the `skillopt` package that lead to our code.

    with skillopt_alias():
        from their_benchmark import TheirAdapter        # it imports from skillopt.envs.base

Inside the block, ``import skillopt...`` finds our code; outside there is no such module. Classes
loaded inside keep working, but imports inside their methods need the alias again; a run therefore
opens it around every call of an adapter.

Modules belong to the process, so other threads see the alias too. The last of several concurrent
blocks removes the modules. A thread that an adapter leaves running can then no longer import them.

Source: SkillOpt (microsoft/SkillOpt), the module paths of its API reference of June 2026 and of the
later release.
"""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from skillwright.core import ConfigError, did_you_mean
from skillwright.plugins.skillopt.names.analysts import MODULES as _ANALYSTS
from skillwright.plugins.skillopt.names.contract import MODULES as _CONTRACT
from skillwright.plugins.skillopt.names.documents import MODULES as _DOCUMENTS
from skillwright.plugins.skillopt.names.model import MODULES as _MODELS
from skillwright.plugins.skillopt.session import NO_RUN, ModelSession, note_if_any

PACKAGE: Final = "skillopt"
_TOPS: Final = (PACKAGE, "scripts")
_ENVS: Final = f"{PACKAGE}.envs"
# Parts of an installed `skillopt` that we do not replace, with their folders in the package.
_INSTALLED: Final = {_ENVS: "envs", "scripts": "../scripts"}

Names = Mapping[str, Any]

_missed: ContextVar[list[str] | None] = ContextVar("missed", default=None)
_guard = threading.RLock()
_inside = 0
_modules: dict[str, ModuleType] = {}
_kept: dict[str, ModuleType] = {}


def alias_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of every module that the alias provides."""
    return {path: tuple(_names_in(module)) for path, module in sorted(_made().items())}


@contextmanager
def skillopt_alias(file: str | Path | None = None) -> Iterator[None]:
    """Provide the module paths of `skillopt` until the block ends.

    Args:
        file: An adapter's file. If it is in ``skillopt/envs/<name>/``, as the original's guide
            says, modules next to it are found as ``skillopt.envs.<name>...``.

    Raises:
        ConfigError: The real package is already imported, so its classes and ours would mix.
    """
    _enter(None if file is None else Path(file))
    try:
        yield
    finally:
        _leave()


@contextmanager
def missing_names() -> Iterator[list[str]]:
    """Collect messages about missing names that this thread imports while the block runs."""
    said: list[str] = []
    token = _missed.set(said)
    try:
        yield said
    finally:
        _missed.reset(token)


def module_of(file: Path) -> str:
    """Return ``skillopt.envs.<name>.<module>`` for a file with such a path, or ``""``."""
    parts = file.resolve().with_suffix("").parts
    return ".".join(parts[-4:]) if parts[-4:-2] == (PACKAGE, "envs") else ""


class SkillOptCompat:
    """Runs adapters that import `skillopt`; see `skillwright.rollout.compat.Compat`."""

    no_run = NO_RUN
    modules = staticmethod(skillopt_alias)
    missing_names = staticmethod(missing_names)
    module_of = staticmethod(module_of)
    session = ModelSession


def _enter(file: Path | None) -> None:
    global _inside
    with _guard:
        if _inside == 0:
            _refuse_real()
            made = _made()
            ours = {
                name: module
                for name, module in made.items()
                if name.partition(".")[0] == PACKAGE or "scripts" not in sys.modules
            }
            kept = {name: one for name, one in _kept.items() if name.partition(".")[0] in ours}
            sys.modules.update({**ours, **kept})
            sys.meta_path.insert(0, _FINDER)
        _inside += 1
        if file is not None and module_of(file):
            beside: list[str] = sys.modules[_ENVS].__path__  # type: ignore[assignment]
            folder = str(file.resolve().parent.parent)
            if folder not in beside:
                beside.append(folder)


def _leave() -> None:
    global _inside
    with _guard:
        _inside -= 1
        if _inside:
            return
        sys.meta_path.remove(_FINDER)
        made = _made()
        tops = [top for top in _TOPS if sys.modules.get(top) is made[top]]
        for name in [one for one in list(sys.modules) if one.partition(".")[0] in tops]:
            module = sys.modules.pop(name)
            if made.get(name) is not module:  # the adapter's own module
                _kept[name] = module


def _refuse_real() -> None:
    found = sys.modules.get(PACKAGE)
    if found is None:
        return
    where = getattr(found, "__file__", None) or "this process"
    raise ConfigError(
        f"the package 'skillopt' is imported already, from {where}, and the alias is in its "
        "place: half of the adapter's classes would be the one's, half the other's. Run it in a "
        "process that does not import the real one"
    )


def _made() -> dict[str, ModuleType]:
    if not _modules:
        tables: dict[str, Names] = {**_CONTRACT, **_DOCUMENTS, **_ANALYSTS, **_MODELS}
        _modules.update({path: _module(path, names) for path, names in tables.items()})
        for path, module in _modules.items():
            parent, _, leaf = path.rpartition(".")
            if parent:
                setattr(_modules[parent], leaf, module)
    return _modules


def _module(path: str, names: Names) -> ModuleType:
    module = ModuleType(path, f"Skillwright's alias of {path}.")
    vars(module).update(names)
    # A package, so that Python looks for a missing name as a submodule, and the finder can raise
    # an error with advice.
    spec = ModuleSpec(path, None, origin="skillwright", is_package=True)
    module.__spec__, module.__path__ = spec, []
    module.__package__ = path
    return module


def _names_in(module: ModuleType) -> list[str]:
    said: list[str] = getattr(module, "__all__", [])
    return [*said, *(name for name in vars(module) if not name.startswith("__"))]


class _Finder(MetaPathFinder):
    """Finds an adapter's own modules below ours, and explains missing ones."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an adapter's own module; `None` for modules outside of `skillopt`."""
        parent, _, name = fullname.rpartition(".")
        if fullname.partition(".")[0] not in _TOPS or not parent:
            return None
        found = PathFinder.find_spec(fullname, path, target) if path else None
        if found is None and parent in _INSTALLED:
            found = PathFinder.find_spec(fullname, _installed(parent), target)
        known = _made().get(parent)
        if found is not None or known is None:
            return found
        raise _missing(parent, name, known)


def _installed(parent: str) -> list[str]:
    """Return the folder of benchmarks or scripts of an installed `skillopt`, if any."""
    package = PathFinder.find_spec(PACKAGE)
    folders = (package.submodule_search_locations if package else None) or ()
    return [str(Path(folder) / _INSTALLED[parent]) for folder in folders]


def _missing(parent: str, name: str, known: ModuleType) -> ImportError:
    """Return the error for a missing name.

    The run records it, because an adapter that catches it would score 0 without a cause.
    """
    said = (
        f"{parent!r} has no {name!r} in Skillwright's alias of skillopt. "
        f"{did_you_mean(name, _names_in(known))} What is not there is listed under 'Your adapter' "
        "on the page about coming from SkillOpt"
    )
    if parent == _ENVS:
        said += "; the original's own benchmarks are found where its package is installed"
    note_if_any(ConfigError(said))
    collected = _missed.get()
    if collected is not None:
        collected.append(said)
    return ImportError(said, name=f"{parent}.{name}")


_FINDER = _Finder()

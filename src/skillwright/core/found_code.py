"""Load code that a setting names: ``package.module:Name`` or ``path/to/file.py:Name``."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from skillwright.core.errors import DataError, did_you_mean
from skillwright.core.jsonio import text_digest

SESSION = "skillwright_session"
"""Module for functions that only this process can import, such as those of a notebook."""


def keep_code(code: Any) -> str:
    """Return an entry point for `find_code` that names a function or class.

    Importable code is named by its module. Other code (a notebook's function, a lambda) is
    registered in this process under a name with a digest of its source, so that a changed function
    has another name.
    """
    name = getattr(code, "__qualname__", type(code).__qualname__)
    module = getattr(code, "__module__", None) or SESSION
    if _is_importable(module) and getattr(sys.modules.get(module), name, None) is code:
        return f"{module}:{name}"
    kept = sys.modules.setdefault(SESSION, ModuleType(SESSION))
    unique = f"{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')}_{text_digest(_text_of(code))[:8]}"
    setattr(kept, unique, code)
    return f"{SESSION}:{unique}"


def _is_importable(module: str) -> bool:
    try:
        return module not in ("__main__", SESSION) and importlib.util.find_spec(module) is not None
    except ValueError:  # a module that was run rather than imported
        return False


def _text_of(code: Any) -> str:
    """Return the source of code and the simple values it is bound to or closes over."""
    if isinstance(code, partial):
        return repr([_text_of(code.func), code.args, code.keywords])
    closure = [one for one in _closure(code) if isinstance(one, str | int | float | tuple)]
    for one in (code, type(code)):
        with suppress(OSError, TypeError):
            return repr([inspect.getsource(one), closure])
    compiled = getattr(code, "__code__", None)  # no source: typed at an interpreter prompt
    if compiled is None:
        return repr(code)
    return repr((compiled.co_code, compiled.co_consts, compiled.co_names, closure))


def _closure(code: Any) -> Iterator[Any]:
    for cell in getattr(code, "__closure__", None) or ():
        with suppress(ValueError):  # an empty cell
            yield cell.cell_contents


def find_code(entry_point: str, what: str) -> Any:
    """Import the object that an entry point names.

    Args:
        entry_point: ``package.module:Name``, or ``path/to/file.py:Name``, relative to the working
            directory.
        what: Name of the object in messages, such as ``environment 'guess'``.

    Raises:
        DataError: The module or the name is missing; the message contains the import error.
    """
    module_name, _, name = entry_point.rpartition(":")
    try:
        module = import_code(module_name)
        if hasattr(module, name):
            return getattr(module, name)
    except (ImportError, AttributeError, OSError, SyntaxError, TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be loaded from {entry_point!r}: {error}. "
            f"{_next_move(module_name, name, error)}"
        ) from error
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    raise DataError(
        f"{what}: there is no {name!r} in {module_name!r}. {did_you_mean(name, classes)}"
    )


def _next_move(module_name: str, name: str, error: Exception) -> str:
    if module_name == SESSION:
        return (
            "It was made in a Python session that is over: run what made it there again, and then "
            "the same call of skillwright, which continues."
        )
    if isinstance(error, SyntaxError):  # its message names the line
        return "Correct it there."
    # The working directory is not on Python's path.
    file = Path(f"{module_name.replace('.', '/')}.py")
    if not module_name.endswith(".py") and file.is_file():
        return f"It is no installed package; name the file: '{file.as_posix()}:{name}'."
    package = (getattr(error, "name", None) or "").partition(".")[0]
    for folder in Path(module_name).parents if package else ():
        inner = folder / package
        if inner.is_dir():
            return f"Put an empty __init__.py into {inner.as_posix()!r}, and it is found."
    return "Check the path, and that its packages are installed."


def import_code(module_name: str) -> ModuleType:
    """Import a module by name, or a file by path; a second call returns the same module.

    A file can import other files of its folder: relatively (``from .loader import Loader``), by
    name (``from loader import Loader``), and, in a folder with an ``__init__.py``, by package
    (``from my_bench.loader import Loader``). Installed packages take precedence.

    Raises:
        Exception: Any error of the import; `OSError` for an unreadable file.
    """
    if not module_name.endswith(".py"):
        return importlib.import_module(module_name)
    path = Path(module_name).resolve()
    # The digest of the folder distinguishes files of the same name.
    package = f"_skillwright_folder_{text_digest(str(path.parent))[:8]}"
    name = f"{package}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    if package not in sys.modules:
        _add_folder(path.parent, package)
    return _load(name, path)


def _add_folder(folder: Path, package: str) -> None:
    """Make the modules of a folder importable from each other in this process."""
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[package] = importlib.util.module_from_spec(spec)
    outside = folder
    while (outside / "__init__.py").is_file():
        outside = outside.parent
    # At the end, so that no installed package is shadowed by a file of the same name.
    sys.path.extend(one for one in {str(folder): 0, str(outside): 0} if one not in sys.path)


def _load(name: str, path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ImportError(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(found)
    # Registered before it runs, so that classes in it can be pickled.
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except SystemExit as error:
        del sys.modules[name]
        raise ImportError(f"it ends the program on import: exit({error.code!r})") from error
    except BaseException:
        del sys.modules[name]
        raise
    return module

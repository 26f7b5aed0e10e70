"""Code that a setting names: ``package.module:Name`` or ``path/to/file.py:Name``."""

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
"""The module of functions that only this process has: of a notebook, or a lambda."""


def keep_code(code: Any) -> str:
    """Return an entry point by which `find_code` finds a function or class in this process.

    One that an import finds is named by its module, and is found by every process. Any other, of a
    notebook or a lambda, is kept for as long as this process lives; a digest of its text is part of
    its name, so that a changed one is another.
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
    """Return the text of code, with what it was made with: another value makes another."""
    if isinstance(code, partial):
        return repr([_text_of(code.func), code.args, code.keywords])
    made_with = [one for one in _enclosed(code) if isinstance(one, str | int | float | tuple)]
    for one in (code, type(code)):
        with suppress(OSError, TypeError):
            return repr([inspect.getsource(one), made_with])
    compiled = getattr(code, "__code__", None)  # typed in where no text is kept
    if compiled is None:
        return repr(code)
    return repr((compiled.co_code, compiled.co_consts, compiled.co_names, made_with))


def _enclosed(code: Any) -> Iterator[Any]:
    for cell in getattr(code, "__closure__", None) or ():
        with suppress(ValueError):  # it has no value yet
            yield cell.cell_contents


def find_code(entry_point: str, what: str) -> Any:
    """Import what an entry point names, whatever it is.

    Args:
        entry_point: ``package.module:Name``, or ``path/to/file.py:Name``, relative to the working
            directory.
        what: What is loaded, for messages, such as ``environment 'guess'``.

    Raises:
        DataError: The module or what is in it is missing; the message carries the import error.
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
    if isinstance(error, SyntaxError):  # it was found, and says where
        return "Correct it there."
    # The folder that a command is called in is not on Python's path.
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
    """Import a module by its name, or a file by its path, once.

    Other files in its folder are found from it: relatively (``from .loader import Loader``), by its
    name (``from loader import Loader``), and, in a folder with an ``__init__.py``, by that of the
    package (``from my_bench.loader import Loader``). What is installed goes before it.

    Raises:
        Exception: Whatever the import raises; `OSError` for a file that cannot be read.
    """
    if not module_name.endswith(".py"):
        return importlib.import_module(module_name)
    path = Path(module_name).resolve()
    # The whole path tells folders apart: there is an env.py in many.
    package = f"_skillwright_folder_{text_digest(str(path.parent))[:8]}"
    name = f"{package}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    if package not in sys.modules:
        _add_folder(path.parent, package)
    return _load(name, path)


def _add_folder(folder: Path, package: str) -> None:
    """Let modules of one folder import each other for the life of the process."""
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[package] = importlib.util.module_from_spec(spec)
    outside = folder
    while (outside / "__init__.py").is_file():
        outside = outside.parent
    # At the end, so that nothing that is installed is hidden by a file of the same name.
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
    except BaseException:
        del sys.modules[name]
        raise
    return module

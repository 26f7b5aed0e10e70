"""Train the skills and the weights of LLM agents, behind a gate that proves improvements.

    import skillwright as sw
    run = sw.train("train.yaml")

The verbs are those of `skillwright.api`; they are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillwright.version import __version__ as __version__

if TYPE_CHECKING:
    from skillwright.api import Run as Run
    from skillwright.api import aevaluate as aevaluate
    from skillwright.api import aoptimize as aoptimize
    from skillwright.api import aresume as aresume
    from skillwright.api import atrain as atrain
    from skillwright.api import evaluate as evaluate
    from skillwright.api import load as load
    from skillwright.api import open as open
    from skillwright.api import optimize as optimize
    from skillwright.api import resume as resume
    from skillwright.api import train as train

__all__ = [
    "Run",
    "aevaluate",
    "aoptimize",
    "aresume",
    "atrain",
    "evaluate",
    "load",
    "open",
    "optimize",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("skillwright.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

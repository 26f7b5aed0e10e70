"""Scripted models by name: the entry points of the group ``skillwright.models``."""

import inspect
from typing import Any, Final

from skillwright.core import ChatModel, did_you_mean
from skillwright.entry_points import entry_point, entry_points

GROUP: Final = "skillwright.models"


def make_scripted_model(name: str, noise: float = 0.0) -> ChatModel:
    """Make a scripted model, or raise a `DataError` if it is missing or fails to import."""
    made: ChatModel = _found(name)(**({"noise": noise} if noise else {}))
    return made


def why_not_scripted(name: str, noise: float = 0.0) -> str:
    """Return why no scripted model can be made with these settings, or ""."""
    known = entry_points(GROUP)
    if not known:
        return (
            f"no scripted model {name!r}: this installation is older than its code. Install it "
            "again, with `pip install -e .` or `make setup`"
        )
    if name not in known:
        return f"no scripted model {name!r}. {did_you_mean(name, known)}"
    if noise and "noise" not in inspect.signature(_found(name)).parameters:
        return f"the scripted {name!r} takes no noise. Leave 'noise' out here"
    return ""


def _found(name: str) -> Any:
    return entry_point(GROUP, name, "scripted model").load()

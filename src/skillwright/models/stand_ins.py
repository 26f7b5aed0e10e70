"""Scripted models by name: what packages offer in the entry point group ``skillwright.models``."""

import inspect
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from skillwright.core import ChatModel, DataError, did_you_mean
from skillwright.core.found_code import find_code

ENTRY_POINT_GROUP = "skillwright.models"


def make_stand_in(name: str, noise: float = 0.0) -> ChatModel:
    """Make the scripted model of a name."""
    made: ChatModel = _found(name)(**({"noise": noise} if noise else {}))
    return made


def why_no_stand_in(name: str, noise: float = 0.0) -> str:
    """Say why no scripted model can be made with these settings, or return ""."""
    if name not in _installed():
        return _unknown(name)
    if noise and "noise" not in inspect.signature(_found(name)).parameters:
        return f"the scripted {name!r} takes no noise. Leave 'noise' out here"
    return ""


def _found(name: str) -> Any:
    if name not in _installed():
        raise DataError(_unknown(name))
    return find_code(_installed()[name], f"scripted model {name!r}")


def _unknown(name: str) -> str:
    known = _installed()
    if not known:
        return (
            f"no scripted model {name!r}: this installation is older than its code. Install it "
            "again, with `pip install -e .` or `make setup`"
        )
    return f"no scripted model {name!r}. {did_you_mean(name, known)}"


@cache
def _installed() -> dict[str, str]:
    points = entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: f"{point.module}:{point.attr}" for point in points}

"""Settings of a mind that is a Python class of one's own."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from skillwright.models.frozen import Frozen
from skillwright.models.prices import Prices

_ENTRY_POINT = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")


def _check_entry_point(name: str) -> str:
    if not _ENTRY_POINT.fullmatch(name):
        raise ValueError(
            f"{name!r} names no class; write 'path/to/file.py:Class', or 'package.module:Class'"
        )
    return name


class PythonConfig(Frozen):
    """A class of your own that answers: a model in this process, a rule, a stand-in."""

    backend: Literal["python"] = "python"
    model: Annotated[str, AfterValidator(_check_entry_point)]
    """``path/to/file.py:Class``, relative to the working directory, or ``package.module:Class``."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What its constructor is given by keyword."""
    scripted: bool = False
    """It is a program that stands in for a language model; results are shown with a note of it."""
    prices: Prices | None = None
    """Where its answers tell tokens and no cost; unset, what they tell is what they cost."""

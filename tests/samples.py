"""What keeps `make test` short: samples of long parametrizations, and runs that are made once."""

from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest


def heavy(*values: Any) -> list[Any]:
    """Mark values of a parametrization as run by `make test-all` alone."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=pytest.mark.heavy) for row in rows]


def once(make: Callable[[Path], Awaitable[Any]]) -> Callable[[Path], Awaitable[Any]]:
    """Make a result that tests only read in the folder of the first that asks, and keep it."""
    made: list[Any] = []

    @wraps(make)
    async def first(folder: Path) -> Any:
        if not made:
            made.append(await make(folder))
        return made[0]

    return first

"""Where the data is: named by the caller, fetched, or the small store that comes with us."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillwright.core import DataError
from skillwright.datasets import cache_dir

DATA_VARIABLE: Final = "SKILLWRIGHT_TAU_DATA"
FETCH_COMMAND: Final = "skillwright data tau-bench"
BUILT_IN: Final = Path(__file__).resolve().parent.parent / "built_in"
ASK_FOR_BUILT_IN: Final = "built-in"
"""Named as the folder, it asks for the small store."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A folder with data, and how it was found."""

    path: str  # the folder
    origin: str  # `env_config.data_dir`, `$SKILLWRIGHT_TAU_DATA`, `fetched` or `built-in`


def fetched_dir() -> Path:
    """Return the folder that fetched data is put into; it need not be there yet."""
    return cache_dir() / "tau_retail"


def data_dir(configured: str | os.PathLike[str] | None = None) -> DataSource:
    """Find the folder with the data; what is in it is checked when it is read.

    Args:
        configured: A folder that was named in a configuration, or ``built-in``; ``None`` looks at
            ``$SKILLWRIGHT_TAU_DATA``, then for fetched data, then for the built-in store.

    Raises:
        DataError: There is none; the message names the command that fetches it.
    """
    if configured == ASK_FOR_BUILT_IN:
        return DataSource(str(BUILT_IN), "built-in")
    if configured:
        return DataSource(_absolute(configured), "env_config.data_dir")
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return DataSource(_absolute(named), f"${DATA_VARIABLE}")
    fetched = fetched_dir()
    if fetched.is_dir():
        return DataSource(_absolute(fetched), "fetched")
    if BUILT_IN.is_dir():
        return DataSource(str(BUILT_IN), "built-in")
    raise DataError(
        f"there is no tau-bench data: run `{FETCH_COMMAND}`, or set {DATA_VARIABLE} (or "
        "env_config.data_dir) to a folder that has it"
    )


def _absolute(folder: str | os.PathLike[str]) -> str:
    # Not Path.resolve: that asks the disk about every part, for every episode.
    return os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111

"""The folder of one run, locked while it lasts: what is free is cleared up by the next run."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import IO

from skillwright.models.executors.tree import kill_marked

if sys.platform != "win32":
    import fcntl

_PREFIX = "skillwright-exec-"
_LOCK = "lock"
_LONGEST_LOGIN = 1_000_000  # bytes


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for one run, whose name is its mark, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        # Renamed once it is held, so that nobody ever finds a lock that is still free.
        with (root / f".{_LOCK}").open("wb") as lock:
            _hold(lock)
            (root / f".{_LOCK}").rename(root / _LOCK)
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sweep() -> None:
    """End and remove what runs left behind whose process was killed."""
    if sys.platform == "win32":
        return
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            with (root / _LOCK).open("r+b") as lock:
                _hold(lock)
                kill_marked(root.name)
                shutil.rmtree(root, ignore_errors=True)


def return_login(place: Path, login: Path) -> None:
    """Keep a login that a program renewed in its own home.

    Its home has a link to the person's login. A program that writes through the link changes that
    file itself; one that puts a new file in the link's place has the only good login in its hands.
    """
    with suppress(OSError, ValueError):
        found = place.lstat()
        if not S_ISREG(found.st_mode) or found.st_size > _LONGEST_LOGIN:
            return
        renewed = place.read_bytes()
        if not isinstance(json.loads(renewed), dict):
            return
        handle, name = tempfile.mkstemp(prefix=f".{login.name}-", dir=login.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(renewed)
        Path(name).replace(login)


def _hold(lock: IO[bytes]) -> None:
    """Lock a file until it is closed."""
    if sys.platform != "win32":
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

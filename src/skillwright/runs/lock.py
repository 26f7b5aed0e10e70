"""One process at a time may write a run.

The operating system holds the lock and lets go of it when the process ends, however it ends; what
stands in the file only tells people who holds it.
"""

import errno
import json
import os
import socket
import sys
from pathlib import Path

from skillwright.core import RunError
from skillwright.core.jsonio import dumps

if sys.platform == "win32":
    import msvcrt

    # Windows locks bytes against readers too, so the locked one lies far behind the text.
    _LOCKED_BYTE = 1 << 30

    def _seize(handle: int) -> None:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _seize(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunBusy(RunError):
    """Another process, or another part of this one, has the lock."""


class RunLock:
    """An exclusive lock on a run folder, held until `release` or the end of the process.

    Args:
        path: The lock file; made if it is not there, and left there.
        started_at: When the holder started, as text, for the message to others.

    Raises:
        RunBusy: Another holder has it, in this process or in another one.
        RunError: The file cannot be written.
    """

    def __init__(self, path: Path, started_at: str) -> None:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _seize(handle)
        except OSError:
            os.close(handle)
            raise RunBusy(_busy(path)) from None
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": started_at}
        try:
            os.ftruncate(handle, 0)
            os.write(handle, dumps(holder).encode())
        except OSError as error:
            os.close(handle)
            raise _unwritable(path, error) from error
        self._handle: int | None = handle

    def release(self) -> None:
        """Let go of the lock. Releasing twice is allowed."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def copy_to_resume(run: Path) -> str:
    """Say what to do with a run in a folder that cannot be written."""
    return (
        f"`skillwright runs show {run}` looks at it there; to go on with it, copy {str(run)!r} to "
        "a folder of your own and `skillwright resume` the copy."
    )


def _unwritable(path: Path, error: OSError) -> RunError:
    sealed = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    move = copy_to_resume(path.parent) if sealed else "Make room or check its permissions."
    return RunError(f"{str(path)!r} cannot be written: {error.strerror}. {move}")


def holder_of(path: Path) -> str:
    """Say who holds a lock, as far as its file tells."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _busy(path: Path) -> str:
    run = path.parent
    return (
        f"run {run.name!r} is in use by {holder_of(path)}. Wait for it or end it, then "
        f"`skillwright resume {run}`; to look meanwhile, `skillwright runs show {run}`."
    )

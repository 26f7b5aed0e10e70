"""Kills a program together with everything that it started, and nothing else.

A descendant is known by its parent, group or session, by the mark in its environment, or, where
it dropped all of these, as an orphan that began after the program did and stands in its folder.
The last two need ``/proc``.
"""

import ctypes
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MARK = "SKILLWRIGHT_EXEC"
"""The environment variable that marks every descendant."""

_PROC = Path("/proc")
# Each round stops what was found, so only what forked meanwhile is left for the next.
_ROUNDS = 20
_INIT = 1
_PR_SET_PDEATHSIG = 1
_SHOWN_COMMAND = 200


class _Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    began: int  # clock ticks since the machine started


@dataclass(frozen=True, slots=True)
class Tree:
    """A program and its descendants.

    Attributes:
        root: Its process id, which is also that of its group and session.
        mark: The value of `MARK` in its environment.
        folder: The folder that it was started in, which is its own.
        began: What `ticks` said before it was started.
    """

    root: int
    mark: str
    folder: Path
    began: int

    def kill(self) -> None:
        """Kill all that still runs; doing it twice is allowed."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)
        # Descendants by parent are known while their parents live, so they are kept for later.
        known: set[int] = {self.root}
        for _ in range(_ROUNDS):
            living = self._living(known)
            if not living:
                return
            known |= living
            for pid in living:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def kill_holders(self, pipes: Set[int]) -> list[str]:
        """Kill whoever else can still write into pipes that were made for the program.

        Only its descendants were given them, whatever else of it they have let go of.

        Returns:
            Who they were, for people: ``process 17 (sleep 600)``.
        """
        found = []
        for process in _processes():
            if pipes & _written_by(process.pid):
                found.append(f"process {process.pid} ({_command(process.pid)})")
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
        return found

    def _living(self, known: set[int]) -> set[int]:
        """Return the processes of the tree that run, zombies left out."""
        found: set[int] = set()
        processes = _processes()
        grew = True
        while grew:
            ours = known | found
            fresh = {
                each.pid
                for each in processes
                if each.pid not in found
                and (each.parent in ours or self.root in (each.pid, each.group, each.session))
            }
            grew = bool(fresh)
            found |= fresh
        return found | {
            each.pid for each in processes if each.pid not in found and self._bears(each)
        }

    def _bears(self, process: _Process) -> bool:
        if _bears_mark(process, self.mark):
            return True
        if process.parent != _INIT or process.began < self.began:
            return False
        with suppress(OSError):
            return (_PROC / str(process.pid) / "cwd").readlink().is_relative_to(self.folder)
        return False


def kill_marked(mark: str) -> None:
    """Kill what still bears the mark of a program whose root is gone."""
    for _ in range(_ROUNDS):
        living = [each for each in _processes() if _bears_mark(each, mark)]
        if not living:
            return
        for process in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def ticks() -> int:
    """Return the clock that the beginning of a process is told by."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def dying_with_us() -> Callable[[], None] | None:
    """Return what a child calls so that it is killed when we are; ``None`` where none can."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # found here: after a fork little may be done

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


def _written_by(pid: int) -> set[int]:
    """Return the inodes of the pipes that a process can write into."""
    found = set()
    with suppress(OSError):
        for place in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                told = place.stat(follow_symlinks=True)
                # The link itself tells how the file was opened.
                writes = place.lstat().st_mode & stat.S_IWUSR
                if stat.S_ISFIFO(told.st_mode) and writes:
                    found.add(told.st_ino)
    return found


def _command(pid: int) -> str:
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "gone"
    return " ".join(words.decode("utf-8", "replace").split())[:_SHOWN_COMMAND]


def _bears_mark(process: _Process, mark: str) -> bool:
    with suppress(OSError):
        environ = (_PROC / str(process.pid) / "environ").read_bytes()
        return f"{MARK}={mark}".encode() in environ.split(b"\0")
    return False


def _processes() -> list[_Process]:
    """List every process but ourselves, kernel threads and zombies included only if alive."""
    found: list[_Process] = []
    if not _PROC.is_dir():
        return found
    for place in _PROC.iterdir():
        if not place.name.isdecimal() or int(place.name) in (_INIT, os.getpid()):
            continue
        with suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold spaces and brackets of its own.
            fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in ("Z", "X"):
                numbers = (*fields[1:4], fields[19])
                found.append(_Process(int(place.name), *map(int, numbers)))
    return found

"""Programs that never outlive this process, nor leave anything behind.

A supervisor process starts the program. It kills the program and all of its descendants when the
program ends, when it receives SIGTERM, and when the process that started it is gone, even by
SIGKILL. On Linux the descendants include those in other sessions, and daemons: an orphan becomes a
child of the supervisor. Elsewhere they are the processes of the program's group.

This file is also the supervisor's program, which imports nothing of Skillwright.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

ENDS_WITHIN_S = 5.0
"""Seconds after SIGTERM in which a supervisor has killed everything."""
NOT_STARTED = 127
"""Exit code of a program that cannot be started, as of shells."""
_PROC = Path("/proc")
_LOOKS_AGAIN_S = 0.5  # seconds between checks whether the parent is gone
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def supervised(argv: Sequence[str]) -> list[str]:
    """Return the command that runs a program under a supervisor.

    Start it in a session of its own (``start_new_session=True``), and end it by SIGTERM. Its
    standard streams and exit code are the program's; a program that cannot be started ends with
    exit code 127 and the reason on standard error. On Windows the command is unchanged.
    """
    if sys.platform == "win32":
        return list(argv)
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]


def end_supervised(process: "subprocess.Popen[str]") -> None:
    """End a supervised program and all of its descendants, and wait for that."""
    process.terminate()
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:  # the supervisor itself was stopped
        process.kill()
        process.wait()


def main(parent: int, argv: list[str]) -> int:
    """Run a program until its end, SIGTERM, or the end of ``parent``; return its wait status."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(woken, False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        _become(argv)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # readers see the end of a stream when the program closes it
        os.dup2(nothing, stream)
    status, is_stopped = None, False
    while status is None and not is_stopped and os.getppid() == parent:
        select.select([woken], [], [], _LOOKS_AGAIN_S)
        with suppress(BlockingIOError):
            is_stopped = signal.SIGTERM in os.read(woken, 64)
        status = _reaped(child)
    killed = _kill_all(child)
    return killed if status is None else status


def _become(argv: list[str]) -> NoReturn:
    """Turn this forked process into the program."""
    supervisor = os.getppid()
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == supervisor:
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]!r} cannot be started: {error.strerror}\n".encode())
    os._exit(NOT_STARTED)


def _prctl(option: int, value: int) -> None:
    """Set a property of this process on Linux; do nothing elsewhere."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _reaped(child: int) -> int | None:
    """Reap ended processes; return the wait status of the program if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            found = ended[1] if ended[0] == child else found
    return found


def _kill_all(child: int) -> int:
    """Kill the program and its descendants until there are none; return its wait status."""
    if sys.platform != "linux":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    found = signal.SIGKILL.value
    while True:
        for pid in _descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return found
        later = _reaped(child)
        found = status if ended == child else found if later is None else later


def _descendants() -> list[int]:
    """List the running descendants of this process; empty without ``/proc``."""
    parents: dict[int, int] = {}
    for place in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain spaces and parentheses.
            state, parent = place.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in ("Z", "X"):
                parents[int(place.parent.name)] = int(parent)
    found = {os.getpid()}
    while fresh := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= fresh
    return sorted(found - {os.getpid()})


if __name__ == "__main__":
    ended_by = os.waitstatus_to_exitcode(main(int(sys.argv[1]), sys.argv[2:]))
    if ended_by < 0:
        import resource  # which Windows lacks

        # End as the program did, which has dumped its core if it should.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), -ended_by)
    os._exit(ended_by)

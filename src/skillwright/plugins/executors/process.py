"""Runs a program once: prompt on stdin, bounded time and output, and nothing left behind."""

import asyncio
import ctypes
import logging
import os
import secrets
import signal
import stat
import sys
import time
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skillwright.core import ModelError, ModelRefused, ModelTimeout, Usage
from skillwright.core.concurrency import together
from skillwright.core.jsonio import write_text
from skillwright.core.secrets import Redactor
from skillwright.models.http.wire import charged
from skillwright.plugins.executors.report import Output, OutputFlood

# Kills a program together with everything that it started, and nothing else.
#
# A descendant is known by its parent, group or session, by the mark in its environment, or, where
# it dropped all of these, as an orphan that began after the program did and is in its folder.
# The last two need ``/proc``.


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
        """Kill other processes that can still write into the program's pipes.

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
    """Return the clock that the beginning of a process is measured by."""
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
                found_stat = place.stat(follow_symlinks=True)
                # The link itself tells how the file was opened.
                writes = place.lstat().st_mode & stat.S_IWUSR
                if stat.S_ISFIFO(found_stat.st_mode) and writes:
                    found.add(found_stat.st_ino)
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


_CHUNK = 64 * 1024
_POLL_S = 0.1
_SHOWN = 300

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    """What is run.

    Attributes:
        argv: The program and its arguments; no shell reads them.
        stdin: What it reads. Prompts travel here: arguments are public and bounded.
        folder: Where it is started, which nothing else works in.
        env: Its whole environment.
        timeout_s: Seconds until it is killed.
        drain_s: Seconds for which its output is read on after it has exited.
        max_output_bytes: Bytes of stdout and stderr together until it is killed.
        name: What a person calls it.
        secrets: Taken out of all that it prints.
        keep: Where what it printed is kept, however it ends: ``{keep}_raw.txt`` and
            ``{keep}_stderr.txt``; ``None`` keeps nothing.
        spent: Reads out of what it printed what it used up, should it be killed.
        mark: By which its descendants are known; no other program's.
    """

    argv: Sequence[str]
    stdin: str
    folder: Path
    env: Mapping[str, str]
    timeout_s: float = 600.0
    drain_s: float = 2.0
    max_output_bytes: int = 16_000_000
    name: str = "the program"
    secrets: Sequence[str] = ()
    keep: Path | None = None
    spent: Callable[[str], Usage] = lambda _: Usage()
    mark: str = field(default_factory=lambda: secrets.token_hex(12))


@dataclass(frozen=True, slots=True)
class _Run:
    """A program that was started."""

    process: asyncio.subprocess.Process
    transport: asyncio.SubprocessTransport
    tree: Tree
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    @property
    def pipes(self) -> frozenset[int]:
        """The inodes of its output, which identify the processes that hold it open."""
        ends = (self.transport.get_pipe_transport(number) for number in (1, 2))
        files = (end.get_extra_info("pipe") for end in ends if end is not None)
        return frozenset(os.fstat(file.fileno()).st_ino for file in files if not file.closed)


class _Bound:
    """Collects both streams up to one bound."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._redactor = Redactor(program.secrets)
        self._left = program.max_output_bytes
        self.stdout, self.stderr = bytearray(), bytearray()

    async def collect(self, stream: asyncio.StreamReader, into: bytearray) -> None:
        while chunk := await stream.read(_CHUNK):
            self._left -= len(chunk)
            if self._left < 0:
                most = self.program.max_output_bytes
                raise OutputFlood(
                    f"{self.program.name} printed more than {most / 1e6:g} MB and was killed. "
                    "Tell it to print less."
                )
            into += chunk

    def text(self, collected: bytearray) -> str:
        return self._redactor.exact(collected.decode("utf-8", "replace"))

    def killed(self, fault: ModelError) -> ModelError:
        """Say on a fault what the program had used up by then."""
        return charged(fault, self.program.spent(self.text(self.stdout)))

    def keep(self) -> None:
        place = self.program.keep
        if place is not None:
            for stream, name in ((self.stdout, "raw"), (self.stderr, "stderr")):
                write_text(place.with_name(f"{place.name}_{name}.txt"), self.text(stream))


async def run_program(program: Program) -> Output:
    """Run a program to its end, whatever its exit code.

    It leads a session of its own. When it ends, runs out of time, floods its output, or the caller
    is cancelled, it and every process that it started are killed before this returns. One that
    escaped and holds a pipe open is waited for no longer than ``drain_s`` after the program's end.
    """
    started = time.monotonic()
    run = await _start(program)
    bound = _Bound(program)
    try:
        async with asyncio.timeout(program.timeout_s) as clock:
            await together(
                (
                    bound.collect(run.stdout, bound.stdout),
                    bound.collect(run.stderr, bound.stderr),
                    _feed(run.stdin, program.stdin),
                    _until_exit(run, clock, program.drain_s),
                )
            )
    except TimeoutError as late:
        if run.process.returncode is None:
            raise bound.killed(ModelTimeout(_too_late(bound))) from late
        _say_who_escaped(program, run.tree.kill_holders(run.pipes))
    except OutputFlood as flood:
        raise bound.killed(flood) from None
    finally:
        await _finish(run, program.drain_s)
        bound.keep()
    return Output(
        exit_code=run.process.returncode or 0,
        stdout=bound.text(bound.stdout),
        stderr=bound.text(bound.stderr),
        seconds=time.monotonic() - started,
    )


def _too_late(bound: _Bound) -> str:
    program = bound.program
    said = bound.text(bound.stderr).strip() or bound.text(bound.stdout).strip()
    last = f" Last it said: {' '.join(said[-_SHOWN:].split())}" if said else ""
    return (
        f"{program.name} ran past {program.timeout_s:g} s and was killed with all that it had "
        f"started; raise timeout_s if it needs longer.{last}"
    )


def _say_who_escaped(program: Program, orphans: Sequence[str]) -> None:
    found = f"{', '.join(orphans)}, killed now" if orphans else "a process that could not be found"
    logger.warning(
        "%s ended, and something that it had started held its output open: %s. What it had "
        "printed by its end is taken.",
        program.name,
        found,
    )


async def _start(program: Program) -> _Run:
    # In a task of its own: asyncio, cancelled between the fork and the open pipes, waits for ever.
    starting = asyncio.ensure_future(_launch(program))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with suppress(asyncio.CancelledError):  # a second one would leave the program behind
                await asyncio.wait({starting})
        with suppress(ModelRefused):
            await _finish(starting.result(), program.drain_s)
        raise


async def _launch(program: Program) -> _Run:
    mark, began = program.mark, ticks()
    loop = asyncio.get_running_loop()
    try:
        # What `asyncio.create_subprocess_exec` does, which keeps the transport to itself.
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop),
            *program.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=program.folder,
            env={**program.env, MARK: mark},
            start_new_session=True,
            preexec_fn=dying_with_us(),
        )
    except OSError as error:
        raise ModelRefused(
            f"{program.name} cannot be started: {error.strerror or error} "
            f"({str(program.argv[0])!r}). Install it again, or correct its path."
        ) from error
    process = asyncio.subprocess.Process(transport, protocol, loop)
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise RuntimeError("all three streams were asked for")
    tree = Tree(process.pid, mark, program.folder.resolve(), began)
    return _Run(process, transport, tree, stdin, stdout, stderr)


async def _finish(run: _Run, drain_s: float) -> None:
    run.tree.kill()
    await _drain(drain_s, run.stdout, run.stderr)
    # A process that still holds a pipe is not waited for; in some versions of Python the wait below
    # would last until the pipes are closed.
    run.transport.close()
    await run.process.wait()


async def _until_exit(run: _Run, clock: asyncio.Timeout, drain_s: float) -> None:
    # Asked again and again, because in some versions of Python the wait itself lasts until the
    # pipes are closed, and what the program left running holds them open.
    waiting = asyncio.ensure_future(run.process.wait())
    try:
        while run.process.returncode is None:
            await asyncio.wait({waiting}, timeout=_POLL_S)
    finally:
        waiting.cancel()
    run.tree.kill()
    clock.reschedule(asyncio.get_running_loop().time() + drain_s)


async def _drain(drain_s: float, *streams: asyncio.StreamReader) -> None:
    """Read what the dead left in their pipes, so that the pipes close."""

    async def drop(stream: asyncio.StreamReader) -> None:
        while await stream.read(_CHUNK):
            pass

    with suppress(TimeoutError):
        async with asyncio.timeout(drain_s):
            await together(map(drop, streams))


async def _feed(stdin: asyncio.StreamWriter, text: str) -> None:
    # A program that stops reading reports the outcome in its output.
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(text.encode("utf-8", "replace"))
        await stdin.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.close()
        # Shielded: a pipe that closes after this was cancelled would complain to the event loop.
        await asyncio.shield(stdin.wait_closed())

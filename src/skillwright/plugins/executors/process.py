"""Runs a program once, with bounds on time and output, and kills all of its descendants."""

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

# Descendants are found by parent, group, session, or the mark in their environment; those that
# dropped all of these, as orphans that started after the program and run in its folder. The last
# two need ``/proc``.

MARK = "SKILLWRIGHT_EXEC"
"""The environment variable that marks every descendant."""

_PROC = Path("/proc")
# Rounds of killing: each round leaves only processes that forked meanwhile.
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
        root: Process id of the program; also its process group and session.
        mark: Value of `MARK` in its environment.
        folder: Working folder, used by no other program.
        began: Value of `ticks` before its start.
    """

    root: int
    mark: str
    folder: Path
    began: int

    def kill(self) -> None:
        """Kill all processes of the tree; idempotent."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)
        # A descendant's parent is known only while the parent lives, so found ids are kept.
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
        """Kill processes that hold a pipe of the program; return ``process 17 (sleep 600)`` each.

        Only its descendants have the pipes.
        """
        found = []
        for process in _processes():
            if pipes & _written_by(process.pid):
                found.append(f"process {process.pid} ({_command(process.pid)})")
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
        return found

    def _living(self, known: set[int]) -> set[int]:
        """Return the running processes of the tree, without zombies."""
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
    """Kill the processes with a mark, after their root process ended."""
    for _ in range(_ROUNDS):
        living = [each for each in _processes() if _bears_mark(each, mark)]
        if not living:
            return
        for process in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def ticks() -> int:
    """Return the current time in the clock ticks of process start times."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def dying_with_us() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that kills the child with this process; ``None`` off Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded here: little is safe between fork and exec

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


def _written_by(pid: int) -> set[int]:
    """Return the inodes of the pipes that a process has open for writing."""
    found = set()
    with suppress(OSError):
        for place in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found_stat = place.stat(follow_symlinks=True)
                # The mode of the link itself is the mode in which the file was opened.
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
    """List the running processes except this one and init, without zombies."""
    found: list[_Process] = []
    if not _PROC.is_dir():
        return found
    for place in _PROC.iterdir():
        if not place.name.isdecimal() or int(place.name) in (_INIT, os.getpid()):
            continue
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain spaces and parentheses.
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
    """A program to run.

    Attributes:
        argv: Program and arguments; no shell.
        stdin: Input. Prompts go here: arguments are public and limited in length.
        folder: Working folder, used by no other program.
        env: Complete environment.
        timeout_s: Seconds until it is killed.
        drain_s: Seconds to read its output after it exits.
        max_output_bytes: Limit of stdout and stderr together; above it, the program is killed.
        name: Name in messages.
        secrets: Texts to redact in its output.
        keep: Stored output: ``{keep}_raw.txt`` and ``{keep}_stderr.txt``; ``None`` stores none.
        spent: Reads the usage from the output of a killed program.
        mark: Unique mark of its descendants.
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
    """A running program."""

    process: asyncio.subprocess.Process
    transport: asyncio.SubprocessTransport
    tree: Tree
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    @property
    def pipes(self) -> frozenset[int]:
        """Inodes of its output pipes; they identify the processes that hold them open."""
        ends = (self.transport.get_pipe_transport(number) for number in (1, 2))
        files = (end.get_extra_info("pipe") for end in ends if end is not None)
        return frozenset(os.fstat(file.fileno()).st_ino for file in files if not file.closed)


class _Bound:
    """Collects both output streams up to one limit."""

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
        """Add the usage up to now to a fault."""
        return charged(fault, self.program.spent(self.text(self.stdout)))

    def keep(self) -> None:
        place = self.program.keep
        if place is not None:
            for stream, name in ((self.stdout, "raw"), (self.stderr, "stderr")):
                write_text(place.with_name(f"{place.name}_{name}.txt"), self.text(stream))


async def run_program(program: Program) -> Output:
    """Run a program to its end and return its output, whatever its exit code.

    At its end, its timeout, too much output, or cancellation, the program and all of its
    descendants are killed before this returns. A descendant that was not found and holds a pipe
    open delays this by at most ``drain_s``.
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
    # A separate task: asyncio hangs if it is cancelled between the fork and the open pipes.
    starting = asyncio.ensure_future(_launch(program))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with suppress(
                asyncio.CancelledError
            ):  # a second cancellation must not leak the process
                await asyncio.wait({starting})
        with suppress(ModelRefused):
            await _finish(starting.result(), program.drain_s)
        raise


async def _launch(program: Program) -> _Run:
    mark, began = program.mark, ticks()
    loop = asyncio.get_running_loop()
    try:
        # As `asyncio.create_subprocess_exec`, which does not expose the transport.
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
    # In some versions of Python, the wait below lasts until all processes close the pipes.
    run.transport.close()
    await run.process.wait()


async def _until_exit(run: _Run, clock: asyncio.Timeout, drain_s: float) -> None:
    # Polled: in some versions of Python, the wait lasts until descendants close the pipes.
    waiting = asyncio.ensure_future(run.process.wait())
    try:
        while run.process.returncode is None:
            await asyncio.wait({waiting}, timeout=_POLL_S)
    finally:
        waiting.cancel()
    run.tree.kill()
    clock.reschedule(asyncio.get_running_loop().time() + drain_s)


async def _drain(drain_s: float, *streams: asyncio.StreamReader) -> None:
    """Read the rest of the killed processes' output, so that the pipes close."""

    async def drop(stream: asyncio.StreamReader) -> None:
        while await stream.read(_CHUNK):
            pass

    with suppress(TimeoutError):
        async with asyncio.timeout(drain_s):
            await together(map(drop, streams))


async def _feed(stdin: asyncio.StreamWriter, text: str) -> None:
    # A program that stops reading still reports its outcome in its output.
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(text.encode("utf-8", "replace"))
        await stdin.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.close()
        # Shielded: a pipe that closes after a cancellation would log an error in the event loop.
        await asyncio.shield(stdin.wait_closed())

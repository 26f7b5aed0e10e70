"""Runs a program once, with bounds on time and output, and leaves nothing of it behind."""

import asyncio
import logging
import math
import time
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillwright.core import ModelError, ModelRefused, ModelTimeout, Usage
from skillwright.core.concurrency import together
from skillwright.core.jsonio import write_text
from skillwright.core.secrets import Redactor
from skillwright.core.supervised import ENDS_WITHIN_S, NOT_STARTED, supervised
from skillwright.models.http.wire import charged
from skillwright.plugins.executors.report import Output, OutputFlood

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
        is_whole: Tells whether an output holds a whole result.
        lingers_s: Seconds without output after a whole result until it is ended.
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
    is_whole: Callable[[str], bool] = lambda _: False
    lingers_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Run:
    """A running program."""

    process: asyncio.subprocess.Process
    transport: asyncio.SubprocessTransport
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader


class _Lingers(Exception):
    """A program printed a whole result, and does not end."""


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

    @property
    def is_whole(self) -> bool:
        return self.program.is_whole(self.text(self.stdout))

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
    descendants are killed before this returns; see `skillwright.core.supervised`. A descendant
    that holds a pipe open nevertheless delays this by at most ``drain_s``. A program that has
    printed a whole result and does not end is ended, and its output returned.

    Raises:
        ModelRefused: The program cannot be started.
        ModelTimeout: It ran past ``timeout_s`` without a whole result.
        OutputFlood: It printed too much.
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
                    _until_drained(run, clock, program.drain_s),
                    _until_lingering(run, bound),
                )
            )
    except TimeoutError as late:
        if run.process.returncode is not None:
            logger.warning("%s ended, and a process that it started still runs", program.name)
        elif not bound.is_whole:
            raise bound.killed(ModelTimeout(_too_late(bound))) from late
    except _Lingers:
        logger.warning("%s printed its result and did not end; it is ended", program.name)
    except OutputFlood as flood:
        raise bound.killed(flood) from None
    finally:
        await _finish(run, program.drain_s)
        bound.keep()
    said = bound.text(bound.stderr)
    if run.process.returncode == NOT_STARTED and "cannot be started: " in said:
        raise ModelRefused(
            f"{program.name}: {said.strip()}. Install it again, or correct its path."
        )
    return Output(
        exit_code=run.process.returncode or 0,
        stdout=bound.text(bound.stdout),
        stderr=said,
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
    loop = asyncio.get_running_loop()
    try:
        # As `asyncio.create_subprocess_exec`, which does not expose the transport.
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop),
            *supervised(program.argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=program.folder,
            env=program.env,
            start_new_session=True,
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
    return _Run(process, transport, stdin, stdout, stderr)


async def _finish(run: _Run, drain_s: float) -> None:
    if run.process.returncode is None:
        run.transport.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN_S):
                await _until_exit(run)
        if run.process.returncode is None:
            run.transport.kill()
    await _drain(drain_s, run.stdout, run.stderr)
    # In some versions of Python, the wait below lasts until all processes close the pipes.
    run.transport.close()
    await run.process.wait()


async def _until_exit(run: _Run) -> None:
    # Polled: in some versions of Python, the wait lasts until descendants close the pipes.
    waiting = asyncio.ensure_future(run.process.wait())
    try:
        while run.process.returncode is None:
            await asyncio.wait({waiting}, timeout=_POLL_S)
    finally:
        waiting.cancel()


async def _until_drained(run: _Run, clock: asyncio.Timeout, drain_s: float) -> None:
    """Wait for the program's end; from then on its output must end within ``drain_s``."""
    await _until_exit(run)
    clock.reschedule(asyncio.get_running_loop().time() + drain_s)


async def _until_lingering(run: _Run, bound: _Bound) -> None:
    """Wait for the program's end, or until it is silent behind a whole result."""
    clock, program = asyncio.get_running_loop().time, bound.program
    size, silent_since = 0, clock()
    while run.process.returncode is None:
        await asyncio.sleep(_POLL_S)
        if len(bound.stdout) != size:
            size, silent_since = len(bound.stdout), clock()
        elif clock() - silent_since >= program.lingers_s:
            if bound.is_whole:
                raise _Lingers
            silent_since = math.inf  # until it prints again


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

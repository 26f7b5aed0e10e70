"""The server process of one GGUF file: started when needed, ended with this process."""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from skillwright.core import ModelRefused
from skillwright.plugins.local.prefixes import SavedPrefixes

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("serve.py")))
_LAST_WORDS = 600  # characters of the log that an error quotes
_LESS = "Lower context or max_concurrent, or take smaller weights"


@dataclass(frozen=True, slots=True)
class Served:
    """The settings of a server; models with equal settings share it.

    Attributes:
        path: GGUF file.
        slots: Concurrent calls.
        context: Tokens per call, prompt and answer together.
        threads: CPU threads.
        template: Jinja template of prompts; ``None``: that in the file.
    """

    path: str
    slots: int
    context: int
    threads: int
    template: str | None = None


class LocalServer:
    """The process of one or more local models; usable from several threads and loops.

    Args:
        served: Its settings.
        program: Command of the server, by default `PROGRAM`; see `skillwright.plugins.local.serve`.

    Attributes:
        key: Bearer token of requests, known to this process alone.
        answers: Number of answers so far, which distinguishes a slow server from a hanging one.
        prefixes: Saved prefixes; kept across restarts, until `end`.
    """

    def __init__(self, served: Served, program: Sequence[str] | None = None) -> None:
        self.served = served
        self.key = secrets.token_urlsafe(32)
        self.answers = 0
        self.users = 0
        self.prefixes = SavedPrefixes()
        self._free_slots = [(0.0, slot) for slot in range(served.slots)]  # each with since when
        self._program = tuple(program or PROGRAM)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._address = ""
        self._is_wanted = True
        self._starting = threading.Lock()
        self._slots = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id, if it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def address(self, timeout_s: float) -> str:
        """Return its address; start it if needed and wait until it is ready, or `ModelRefused`."""
        with self._starting:
            if self.pid is None:
                self._address = self._start(timeout_s)
            return self._address

    def take_slot(self) -> int | None:
        """Reserve a free slot for `give_slot`; ``None`` if all are in use."""
        with self._slots:
            for free in self._free_slots:
                if free[0] <= time.monotonic():
                    self._free_slots.remove(free)
                    return free[1]
        return None

    def give_slot(self, slot: int, after_s: float = 0.0) -> None:
        """Free a slot for other calls, after ``after_s`` seconds."""
        with self._slots:
            self._free_slots.append((time.monotonic() + after_s, slot))

    def why_it_ended(self, wait_s: float = 0.0) -> str:
        """Return how the process ended, with its last output; "" if it still runs."""
        process = self._process
        try:
            code = process.wait(wait_s) if process is not None else None
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            return ""
        how = f"status {code}"
        if code < 0:
            how = signal.Signals(-code).name
            how += ", perhaps for want of memory" if -code == signal.SIGKILL else ""
        return f"its process ended ({how}){self._quoted()}"

    def kill(self) -> None:
        """Kill the process; the next call starts another one."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def end(self) -> None:
        """End the process permanently."""
        self._is_wanted = False
        self.kill()
        self._close()
        self.prefixes.close()

    def _close(self) -> None:
        process = self._process
        for file in (self._log, *((process.stdin, process.stdout) if process else ())):
            if file is not None:
                with suppress(BrokenPipeError):  # unread input of the ended process
                    file.close()

    def _start(self, timeout_s: float) -> str:
        process = self._spawn()
        timer = threading.Timer(timeout_s, process.kill)
        timer.daemon = True
        timer.start()
        try:
            said = self._said(process)
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        if not self._is_wanted:
            self.kill()
            raise ModelRefused(f"{self._named} was ended while it started.")
        if "address" in said:
            return str(said["address"])
        process.kill()
        process.wait()
        if is_late:
            raise ModelRefused(
                f"{self._named} was not ready within {timeout_s:g} s{self._quoted()}. Raise "
                "timeout_s, or take smaller weights."
            )
        why = said.get("error") or self.why_it_ended()
        also = ", or correct its chat template" if self.served.template else ""
        raise ModelRefused(f"{self._named} could not be started: {why}. {_LESS}{also}.")

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._close()
        self._log = TemporaryFile()  # noqa: SIM115 - open for as long as the process runs
        # A session of its own, so that Ctrl-C does not end it before this process.
        process = self._process = subprocess.Popen(
            self._program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        return process

    def _said(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        served = self.served
        settings = {
            "path": served.path,
            "slots": served.slots,
            "context": served.context,
            "threads": served.threads,
            "template": served.template,
            "prefixes": str(self.prefixes.folder),
            "key": self.key,
            "parent": os.getpid(),
        }
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # By standard input: other users can read a process's arguments.
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            said = json.loads(line) if line.strip() else {}
        except (OSError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        if not said:
            process.wait()
        return said if isinstance(said, dict) else {"error": f"it said {line[:80]!r}"}

    def _quoted(self) -> str:
        log = self._log
        if log is None or log.closed:
            return ""
        size = os.fstat(log.fileno()).st_size
        words = os.pread(log.fileno(), _LAST_WORDS, max(0, size - _LAST_WORDS))
        text = " ".join(words.decode("utf-8", "replace").split())
        return f"; the end of its log: {text}" if text else ""

    @property
    def _named(self) -> str:
        return f"the server of {self.served.path}"


_running: dict[Served, LocalServer] = {}
_lock = threading.Lock()


def share_server(served: Served) -> tuple[LocalServer, Callable[[], None]]:
    """Return this process's server for some settings and a function that releases it.

    The server ends when all users have released it.
    """
    with _lock:
        if served not in _running:
            _running[served] = LocalServer(served)
        server = _running[served]
        server.users += 1

    def give_back() -> None:
        with _lock:
            server.users -= 1
            if server.users:
                return
            if _running.get(served) is server:
                del _running[served]
        server.end()

    return server, give_back

"""``skillwright serve`` as a process of its own, and its server inside a test."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillwright.core.loopback import bound_socket
from skillwright.plugins.serve.opened import Serving, Settings, serving

KEY = "served-key-0123456789"


@dataclass(frozen=True)
class Process:
    """A process that serves.

    Attributes:
        exports: What it printed: variables by name.
        process: The process.
    """

    exports: dict[str, str]
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        """Its address, with ``/v1``."""
        return self.exports["OPENAI_BASE_URL"]

    @property
    def key(self) -> str:
        """Its key."""
        return self.exports.get("OPENAI_API_KEY") or self.exports["SKILLWRIGHT_SERVE_KEY"]

    def stop(self) -> tuple[int, str]:
        """Stop it as Ctrl-C does; return its exit code and what it said."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate()
        return self.process.returncode, said


@contextmanager
def serve_process(*words: object, cwd: Path, **environ: str) -> Iterator[Process]:
    """Start a server; it is ended with the block."""
    command = [sys.executable, "-m", "skillwright", "serve", *map(str, words)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **environ}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=settings
    )
    try:
        exports: dict[str, str] = {}
        while not {"OPENAI_API_KEY", "SKILLWRIGHT_SERVE_KEY"} & exports.keys():
            line = process.stdout.readline()
            if not line:
                raise AssertionError(f"it did not start: {process.stderr.read()}")
            name, _, value = line.removeprefix("export ").strip().partition("=")
            exports[name] = value
        yield Process(exports, process)
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def serve_here(**settings: Any) -> AsyncIterator[tuple[str, Serving]]:
    """Serve inside this process; gives the address, without ``/v1``, and what is served."""
    settings.setdefault("key", KEY)
    with bound_socket(0) as bound:
        port = bound.getsockname()[1]
        async with serving(Settings(**settings), bound) as served:
            yield f"http://127.0.0.1:{port}", served

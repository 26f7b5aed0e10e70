"""A folder in which nothing can be written, not even by root: a read-only mount of its own.

The mount is in a namespace of the process that looks at it, so nothing of it is left behind.
Permission bits would do for other people, and root is not bound by them.

    results = sealed(folder, [("runs", "list"), ("bank", "log")])
    results[0].code, results[0].stdout, results[0].stderr
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

_MOUNT = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && shift && exec "$@"'
_RUN_ALL = """
import json, sys
from typer.testing import CliRunner
from skillwright.cli.app import app

for words in json.load(sys.stdin):
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    print(json.dumps([done.exit_code, done.stdout, done.stderr]))
"""


class Told(NamedTuple):
    """What a command said."""

    code: int
    stdout: str
    stderr: str


def sealed(folder: Path, commands: Sequence[Sequence[object]]) -> list[Told]:
    """Run commands in a folder that is read-only to them; skip where no such mount can be made."""
    if not _can_mount():
        pytest.skip("this machine lets nobody make a mount namespace (`unshare --map-root-user`)")
    words = [[str(word) for word in command] for command in commands]
    done = _within(folder, [sys.executable, "-c", _RUN_ALL], json.dumps(words))
    assert done.returncode == 0, done.stderr  # a traceback, too
    return [Told(*json.loads(line)) for line in done.stdout.splitlines()]


@functools.cache
def _can_mount() -> bool:
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    return _within(Path(__file__).resolve().parent, ["true"]).returncode == 0


def _within(
    folder: Path, words: Sequence[str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh", str(folder), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )

"""The command in a process that ends itself with SIGKILL at its n-th moment.

A moment is a statement that is about to change a file of ours, a run's store or a bank, one that
somebody's adapter names by `moment`, or a change of the file system in a folder that is watched
(`file`). So nothing here knows of a clock, and every place between two
statements, in the middle of a transaction as well, is a place to die at.

    code, moments = command(["bank", "evolve", ...], folder, dies_at=17)
    moments                       # what it came to: "store", "bank", "store-after-bank", or a name
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_OTHER = {"bank": "store", "store": "bank"}
_CHANGES = ("BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT", "REPLACE")
_TESTS = Path(__file__).resolve().parent
_MOMENTS = "moments.log"


def command(
    words: Sequence[object],
    folder: Path,
    *,
    dies_at: int = 0,
    of: str = "",
    env: Mapping[str, str] | None = None,
    watched: Path | None = None,
    codes: Sequence[int] = (0,),
) -> tuple[int, list[str]]:
    """Run a command in a folder until its end or its death; return the exit code and the moments.

    Args:
        words: What stands behind ``skillwright``.
        folder: Where it runs.
        dies_at: The moment that it does not survive, from 1; with 0 it lives.
        of: Count only moments whose name begins so.
        env: Variables beside those of this process.
        watched: A folder in which every change of a file is a moment.
        codes: Exit codes that are as expected, where it lives.
    """
    paths = [str(_TESTS), *filter(None, sys.path)]
    log = _fresh_log(folder)
    process = subprocess.run(
        [sys.executable, "-c", "import dying; dying.live()", *map(str, words)],
        cwd=folder,
        env={
            **os.environ,
            **(env or {}),
            "PYTHONPATH": os.pathsep.join(paths),
            **_orders(log, dies_at, of, watched),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    expected = (-signal.SIGKILL,) if dies_at else ()
    assert process.returncode in (*codes, *expected), process.stderr
    return process.returncode, _noted(log)


def forked(
    words: Sequence[object],
    folder: Path,
    *,
    dies_at: int = 0,
    of: str = "",
    watched: Path | None = None,
) -> tuple[int, list[str]]:
    """Run a command as `command` does, in a copy of this process: without the time for imports.

    This process may have no thread. The exit code of one that was killed is -9, as there.
    """
    log = _fresh_log(folder)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            os.environ.update(_orders(log, dies_at, of, watched))
            sys.argv = ["skillwright", *map(str, words)]
            with (folder / "said.log").open("a") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            live()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), _noted(log)


def _fresh_log(folder: Path) -> Path:
    log = folder / _MOMENTS
    log.unlink(missing_ok=True)
    return log


def _noted(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").split() if log.is_file() else []


def _orders(log: Path, dies_at: int, of: str, watched: Path | None) -> dict[str, str]:
    return {
        "DIES_AT": str(dies_at),
        "DIES_OF": of,
        "MOMENTS": str(log),
        "WATCHED": str(watched or ""),
    }


def moment(name: str) -> None:
    """Note a moment, or die at it."""
    wanted, left = os.environ.get("DIES_OF", ""), int(os.environ["DIES_AT"])
    with Path(os.environ["MOMENTS"]).open("a+", encoding="utf-8") as log:
        log.write(f"{name}\n")
        log.seek(0)
        seen = log.read().split()
    if left and name.startswith(wanted) and sum(one.startswith(wanted) for one in seen) == left:
        os.kill(os.getpid(), signal.SIGKILL)


_FILES = {"os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate"}


def _watch(watched: str) -> None:
    """Make every change of the file system below a folder a moment."""

    def seen(event: str, values: tuple[Any, ...]) -> None:
        is_written = event == "open" and isinstance(values[1], str) and set("wax+") & set(values[1])
        if (is_written or event in _FILES) and str(values[0]).startswith(watched):
            moment("file")

    sys.addaudithook(seen)


def live() -> None:
    """Run the command, every change of a file noted."""
    if os.environ["WATCHED"]:
        _watch(os.environ["WATCHED"])
    from skillwright.bank.store.tables import BankFile
    from skillwright.cli import main
    from skillwright.core.sqlite_file import SqliteFile
    from skillwright.runs.database import Database

    files: list[str] = []  # the file that was changed last

    def noted(method: Any) -> Any:
        def call(self: SqliteFile, sql: str, values: Any = ()) -> Any:
            if sql.lstrip().startswith(_CHANGES):
                name = "bank" if isinstance(self, BankFile) else "store"
                is_switch = files and files[-1] != name
                files[:] = [name]
                moment(f"{name}-after-{_OTHER[name]}" if is_switch else name)
            return method(self, sql, values)

        return call

    SqliteFile.rows = noted(SqliteFile.rows)
    SqliteFile.write_many = noted(SqliteFile.write_many)
    Database.write = noted(Database.write)
    sys.exit(main())

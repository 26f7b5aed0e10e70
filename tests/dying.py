"""The command in a process that ends itself with SIGKILL at its n-th moment.

A moment is a statement that is about to change a file of ours, a run's store or a bank, or one that
somebody's adapter names by `moment`. So nothing here knows of a clock, and every place between two
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
) -> tuple[int, list[str]]:
    """Run a command in a folder until its end or its death; return the exit code and the moments.

    Args:
        words: What stands behind ``skillwright``.
        folder: Where it runs.
        dies_at: The moment that it does not survive, from 1; with 0 it lives.
        of: Count only moments whose name begins so.
        env: Variables beside those of this process.
    """
    log = folder / _MOMENTS
    log.unlink(missing_ok=True)
    paths = [str(_TESTS), *filter(None, sys.path)]
    process = subprocess.run(
        [sys.executable, "-c", "import dying; dying.live()", *map(str, words)],
        cwd=folder,
        env={
            **os.environ,
            **(env or {}),
            "PYTHONPATH": os.pathsep.join(paths),
            "DIES_AT": str(dies_at),
            "DIES_OF": of,
            "MOMENTS": str(log),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    expected = (-signal.SIGKILL,) if dies_at else (0,)
    assert process.returncode in (0, *expected), process.stderr
    return process.returncode, log.read_text(encoding="utf-8").split() if log.is_file() else []


def moment(name: str) -> None:
    """Note a moment, or die at it."""
    wanted, left = os.environ.get("DIES_OF", ""), int(os.environ["DIES_AT"])
    with Path(os.environ["MOMENTS"]).open("a+", encoding="utf-8") as log:
        log.write(f"{name}\n")
        log.seek(0)
        seen = log.read().split()
    if left and name.startswith(wanted) and sum(one.startswith(wanted) for one in seen) == left:
        os.kill(os.getpid(), signal.SIGKILL)


def live() -> None:
    """Run the command, every change of a file noted."""
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

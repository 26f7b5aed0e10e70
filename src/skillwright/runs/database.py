"""One SQLite file, used from one thread.

Statements take microseconds to a few milliseconds, so they run on the thread of the event loop:
handing them to another thread would cost more and lose the order. A transaction must not be held
across an ``await``, or other coroutines' writes would fall into it.

Every commit outlives a killed process (WAL). A commit that is `durable` also outlives a power cut.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, assert_never

from skillwright.core.sqlite_file import BUSY_TIMEOUT_S, SqliteFile, Trouble
from skillwright.runs.lock import copy_to_resume
from skillwright.runs.schema import SCHEMA

# Below the number of variables that any SQLite build allows in a statement (999).
_CHUNK = 500


class Database(SqliteFile):
    """A run's file, open.

    Args:
        path: The file; made and brought up to date unless ``read_only``.
        read_only: Look, change nothing; the run may be going on in another process.
        busy_timeout_s: How long to wait for another process that is writing.

    Raises:
        RunError: The file is missing, no run, damaged, locked, or of another version.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self._depth = 0
        self._is_durable: bool | None = None  # as the file was told; nothing yet
        super().__init__(path, SCHEMA, read_only=read_only, busy_timeout_s=busy_timeout_s)

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """Run a query and return its first row."""
        found = self.rows(sql, values)
        return found[0] if found else None

    def rows_in(self, sql: str, keys: Iterable[Any]) -> list[sqlite3.Row]:
        """Run a query that ends in ``IN ({})`` for any number of keys."""
        wanted = list(keys)
        found = []
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            found += self.rows(sql.format(",".join("?" * len(part))), part)
        return found

    def write(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the id of the row that it inserted.

        Raises:
            RunError: The disk is full, or the file cannot be written; nothing was.
        """
        try:
            return self._open().execute(sql, values).lastrowid or 0
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def insert(self, table: str, values: Mapping[str, Any], *, replace: bool = False) -> int:
        """Insert a row of columns and values, and return its id."""
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        return self.write(
            f"{verb} INTO {table} ({columns}) VALUES ({marks})", tuple(values.values())
        )

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Make all writes inside take effect together, or none of them.

        Inside another transaction it is a part of that one.

        Args:
            durable: Wait until the disk has it. The outermost transaction decides.

        Raises:
            RunError: The disk is full, or another process holds the file.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        if durable is not self._is_durable:
            self.write(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._is_durable = durable
        self.write("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            self.write("COMMIT")
        finally:
            self._depth = 0
            self._roll_back()

    def advice(self, trouble: Trouble) -> str:
        """Say what of the run is saved, and how it goes on."""
        resume = f"`skillwright resume {self.path.parent}`"
        match trouble:
            case Trouble.FULL:
                return f"{self._saved()} Free some space, then continue with {resume}."
            case Trouble.BUSY:
                return f"; then continue with {resume}."
            case Trouble.DAMAGED:
                return "start a new run."
            case Trouble.SEALED:
                return copy_to_resume(self.path.parent)
            case never:
                assert_never(never)

    def _saved(self) -> str:
        if self._connection is None:
            return "Nothing was written."
        try:
            episodes, verdicts = self._connection.execute(
                "SELECT (SELECT count(*) FROM episodes), (SELECT count(*) FROM verdicts)"
            ).fetchone()
        except sqlite3.Error:
            return "What was recorded before is saved."
        return (
            f"Saved are {episodes} episodes and {verdicts} verdicts, all that was recorded before; "
            "only what was in flight is lost."
        )

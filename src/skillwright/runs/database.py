"""One SQLite file, used from one thread.

Statements take microseconds to a few milliseconds, so they run on the thread of the event loop:
handing them to another thread would cost more and lose the order. A transaction must not be held
across an ``await``, or other coroutines' writes would fall into it.

Every commit outlives a killed process (WAL). A commit that is `durable` also outlives a power cut.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillwright.core import RunError
from skillwright.runs.schema import check_version, migrate

BUSY_TIMEOUT_S = 10.0

# Below the number of variables that any SQLite build allows in a statement (999).
_CHUNK = 500


class Database:
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
        self.path = path
        self._depth = 0
        self._is_durable: bool | None = None  # as the file was told; nothing yet
        self._connection: sqlite3.Connection | None = None
        try:
            connect = _connect_read_only if read_only else _connect
            self._connection = connect(path, busy_timeout_s)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Run a query.

        Raises:
            RunError: The file cannot be read.
        """
        try:
            return self._open().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from error

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
        """Insert a row of columns and values, and return its id.

        Args:
            table: Where.
            values: By column.
            replace: Put it in the place of the row that has the same primary key.
        """
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        return self.write(
            f"{verb} INTO {table} ({columns}) VALUES ({marks})", tuple(values.values())
        )

    def write_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of values."""
        try:
            self._open().executemany(sql, values)
        except sqlite3.Error as error:
            raise self._fault(error) from error

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

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RunError(f"the store of {str(self.path)!r} is closed; open it again")
        return self._connection

    def _roll_back(self) -> None:
        # After some faults, such as a full disk, SQLite has done it already.
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _fault(self, error: sqlite3.Error) -> Exception:
        """Say what a fault of the file means; any other fault is a bug and stays as it is."""
        if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            return error
        text, where = str(error), str(self.path)
        resume = f"`skillwright resume {self.path.parent}`"
        if "is full" in text or "disk I/O" in text:
            self._roll_back()
            return RunError(
                f"{where}: the disk is full or failing ({text}). {self._saved()} Free some space, "
                f"then continue with {resume}."
            )
        if "locked" in text or "busy" in text:
            return RunError(
                f"{where}: another process is writing to it ({text}). Wait for that process, or "
                f"end it; then continue with {resume}."
            )
        if "readonly" in text:
            return RunError(f"{where} cannot be written ({text}). Check its permissions.")
        if "unable to open" in text:
            return RunError(f"{where} cannot be opened. Check that it exists and may be read.")
        return RunError(
            f"{where} is damaged or no run ({text}). Restore it from a copy, or start a new run."
        )

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


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        _prepare(connection)
        migrate(connection, str(path))  # first, because it refuses other people's files
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    try:
        return _look(path, "mode=ro", busy_timeout_s)
    except sqlite3.OperationalError:
        # A folder that cannot be written has no room for the index of the write-ahead log. Where
        # there is no log either, nobody is writing, and the file can be read as it is.
        if not os.access(path, os.R_OK) or path.with_name(f"{path.name}-wal").exists():
            raise
        return _look(path, "immutable=1", busy_timeout_s)


def _look(path: Path, mode: str, busy_timeout_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)
    try:
        _prepare(connection)
        check_version(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")

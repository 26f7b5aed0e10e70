"""One SQLite file of a bank, used from one thread; other processes may use it too.

Every commit outlives a killed process (WAL). A commit that is `durable` also outlives a power cut.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillwright.bank.errors import BankError
from skillwright.bank.store.schema import check_version, migrate

BUSY_TIMEOUT_S = 10.0


class BankFile:
    """A bank's file, open.

    Args:
        path: The file; made, with its folder, and brought up to date unless ``read_only``.
        read_only: Look, change nothing.
        busy_timeout_s: How long to wait for another process that is writing.

    Raises:
        BankError: The file is missing, no bank, damaged, locked, or of another version.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        try:
            connect = _connect_read_only if read_only else _connect
            self._connection = connect(path, busy_timeout_s)
        except sqlite3.Error as error:
            raise self._fault(error) from error
        except OSError as error:
            raise BankError(
                f"{path} cannot be made ({error.strerror}). Name another folder."
            ) from error

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement and return its rows.

        Raises:
            BankError: The disk is full, or the file cannot be read or written.
        """
        try:
            return self._open().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def write_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of values.

        Raises:
            BankError: The disk is full, or the file cannot be written.
        """
        try:
            self._open().executemany(sql, values)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Make all writes inside take effect together, or none of them. No other may be open.

        Args:
            durable: Wait until the disk has it.

        Raises:
            BankError: The disk is full, or another process holds the file.
        """
        self.rows(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        finally:
            self._roll_back()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise BankError(f"the bank of {str(self.path)!r} is closed; open it again")
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
        if "is full" in text or "disk I/O" in text:
            self._roll_back()
            return BankError(
                f"{where}: the disk is full or failing ({text}). All earlier versions are safe, "
                "and nothing of this change was written. Free some space and try again."
            )
        if "locked" in text or "busy" in text:
            return BankError(
                f"{where}: another process is writing to it ({text}). Wait for that process, or "
                "end it, and try again."
            )
        if "readonly" in text:
            return BankError(f"{where} cannot be written ({text}). Check its permissions.")
        if "unable to open" in text:
            return BankError(f"{where} cannot be opened. Check that it exists and may be read.")
        return BankError(
            f"{where} is damaged or no bank ({text}). Restore it from a copy, or import its last "
            "export into a new file."
        )


def _connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
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

"""Create, check, read and write our SQLite files: a run's store and a bank.

`PRAGMA user_version` holds the schema's version; a file of another version is refused. Commits
survive a killed process (WAL).
"""

import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from skillwright.core.errors import UsageError

# The write-ahead log (WAL) next to an SQLite file holds the latest commits. SQLite deletes a log
# that it cannot read, and the log of an empty file; both cases are refused before opening.
#
# Source of the layout: "WAL File Format", section 4 of https://www.sqlite.org/fileformat2.html.


_HEADER_BYTES = 32
_CHECKED_WORDS = 6
_LITTLE_ENDIAN, _BIG_ENDIAN = 0x377F0682, 0x377F0683
_WORD = 0xFFFFFFFF


def log_of(path: Path) -> Path:
    """Return the path of a file's write-ahead log."""
    return path.with_name(f"{path.name}-wal")


def log_size(path: Path) -> int:
    """Return the size of a file's log in bytes; 0 without one."""
    log = log_of(path)
    return log.stat().st_size if log.is_file() else 0


def has_valid_header(log: Path) -> bool:
    """Tell whether SQLite can read a log; a missing or empty one is valid."""
    if not log.is_file():
        return True
    with log.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:  # a process was killed before it wrote a frame
        return True
    magic = struct.unpack_from(">I", header)[0]
    if magic not in (_LITTLE_ENDIAN, _BIG_ENDIAN):
        return False
    order = ">" if magic == _BIG_ENDIAN else "<"
    words = struct.unpack_from(f"{order}{_CHECKED_WORDS}I", header)
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return (first, second) == struct.unpack_from(">2I", header, 4 * _CHECKED_WORDS)


BUSY_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a kind of file.

    Attributes:
        kind: Name of the kind of file in messages.
        holder: Name of the open file in messages: "store".
        application_id: SQLite's application id; files with another one are refused.
        version: Version of the tables; files with another one are refused.
        error: Type of the errors about unusable files.
        if_empty: End of the message about a file without tables.
    """

    kind: str
    holder: str
    application_id: int
    version: int
    tables: tuple[str, ...]
    error: type[UsageError]
    if_empty: str

    def check(self, connection: sqlite3.Connection, where: str) -> None:
        """Refuse an unreadable file without changing it.

        Raises:
            UsageError: `error`: the file is empty, of another kind, or of another version.
        """
        if not self._is_ours(connection, where):
            raise self.error(f"{where} {self.if_empty}")

    def create(self, connection: sqlite3.Connection, where: str) -> None:
        """Create the tables of a new file, in one transaction.

        Raises:
            UsageError: `error`: the file is of another kind or version.
            sqlite3.Error: A statement failed; the file is as it was.
        """
        if self._is_ours(connection, where):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Check again under the lock, because another process may have created them.
            if not self._is_ours(connection, where):
                for statement in self.tables:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {self.application_id}")
                connection.execute(f"PRAGMA user_version = {self.version}")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _is_ours(self, connection: sqlite3.Connection, where: str) -> bool:
        """Tell whether the tables exist; refuse a file of another kind or version."""
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            return False
        if connection.execute("PRAGMA application_id").fetchone()[0] != self.application_id:
            raise self.error(
                f"{where} is an SQLite file, but no {self.kind} of Skillwright; name another file"
            )
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != self.version:
            raise self.error(
                f"{where} was written by another version of Skillwright (schema {version}; this "
                f"one reads schema {self.version}). Open it with that version, or start a new "
                f"{self.kind}."
            )
        return True


class Trouble(StrEnum):
    """Faults of a file for which the advice depends on its kind."""

    FULL = "full"
    """The disk is full or failing; the transaction is rolled back."""
    BUSY = "busy"
    """Another process is writing to it."""
    DAMAGED = "damaged"
    """It is unreadable, or no SQLite file."""
    READ_ONLY_FOLDER = "read_only_folder"
    """Its folder is read-only."""


class SqliteFile:
    """An open file for use in one thread; subclasses add advice to error messages.

    Args:
        path: The file; created unless ``read_only``.
        schema: Its tables and version.
        read_only: Open without write access; another process may be writing.
        busy_timeout_s: Seconds to wait for another process that is writing.

    Raises:
        UsageError: The schema's ``error``: the file is missing, of another kind or version,
            damaged, or locked.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.path = path
        self._schema = schema
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        connect = _connect_read_only if read_only else _connect
        try:
            self._refuse_loss(read_only)
            self._connection = connect(path, schema, busy_timeout_s)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def advice(self, trouble: Trouble) -> str:
        """Return the end of an error message: the state of the data, and what to do."""
        raise NotImplementedError(f"{type(self).__name__} gives no advice for {trouble!r}")

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement and return its rows.

        Raises:
            UsageError: The schema's ``error``: the disk is full, or the file cannot be used.
        """
        try:
            return self._open().execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def write_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of values."""
        try:
            self._open().executemany(sql, values)
        except sqlite3.Error as error:
            raise self._fault(error) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._schema.error(
                f"the {self._schema.holder} of {str(self.path)!r} is closed; open it again"
            )
        return self._connection

    def _refuse_loss(self, read_only: bool) -> None:
        """Refuse an empty file with a log and an unreadable log: SQLite would delete the log."""
        log, size = log_of(self.path), log_size(self.path)
        is_empty = self.path.is_file() and self.path.stat().st_size == 0
        if is_empty and size:
            raise self._schema.error(
                f"{self.path} is empty (0 bytes), but its log {log.name!r} is not ({size:,} "
                "bytes). Restore both from a copy; nothing was changed."
            )
        if is_empty and read_only:
            raise self._schema.error(f"{self.path} {self._schema.if_empty}")
        if not has_valid_header(log):
            raise self._schema.error(
                f"{log} is damaged; it holds what was written last to {self.path.name!r}. Restore "
                f"both from a copy. To continue without it, move {log.name!r} elsewhere; "
                "nothing was changed."
            )

    def _roll_back(self) -> None:
        # After some faults, such as a full disk, SQLite has already rolled back.
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _fault(self, error: sqlite3.Error) -> Exception:
        """Convert a fault of the file into our error; return any other fault, a bug, unchanged."""
        if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            return error
        text, where, fault = str(error), str(self.path), self._schema.error
        if "is full" in text or "disk I/O" in text:
            self._roll_back()
            return fault(
                f"{where}: the disk is full or failing ({text}). {self.advice(Trouble.FULL)}"
            )
        if "locked" in text or "busy" in text:
            return fault(
                f"{where}: another process is writing to it ({text}). Wait for that process, or "
                f"end it{self.advice(Trouble.BUSY)}"
            )
        if "readonly" in text:
            return fault(f"{where} cannot be written ({text}). Check its permissions.")
        if "unable to open" in text:
            return fault(self._not_opened(where))
        return fault(
            f"{where} is damaged or no {self._schema.kind} ({text}). Restore it from a copy, or "
            f"{self.advice(Trouble.DAMAGED)}"
        )

    def _not_opened(self, where: str) -> str:
        if self._read_only or not is_read_only_folder(self.path.parent):
            return f"{where} cannot be opened. Check that it exists and may be read."
        if self.path.exists():
            return (
                f"{where} cannot be written: its folder is read-only. "
                f"{self.advice(Trouble.READ_ONLY_FOLDER)}"
            )
        return f"{where} cannot be made: its folder is read-only. Name another folder."


def is_read_only_folder(folder: Path) -> bool:
    """Tell whether a folder exists and is not writable."""
    return folder.is_dir() and not os.access(folder, os.W_OK)


def _connect(path: Path, schema: Schema, busy_timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    try:
        _prepare(connection)
        schema.create(connection, str(path))  # first, because it refuses other kinds of files
        connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path, schema: Schema, busy_timeout_s: float) -> sqlite3.Connection:
    try:
        return _open_uri(path, "mode=ro", schema, busy_timeout_s)
    except sqlite3.OperationalError:
        # SQLite cannot create the log's index in a read-only folder. Without a log, no process is
        # writing, and the file can be opened as immutable.
        if not os.access(path, os.R_OK):
            raise
        if not log_of(path).exists():
            return _open_uri(path, "immutable=1", schema, busy_timeout_s)
        if not is_read_only_folder(path.parent):
            raise
        return _open_copy(path, schema)


def _open_copy(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open a copy of a file and its log, which a killed process left in a read-only folder."""
    with tempfile.TemporaryDirectory(prefix="skillwright-") as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        shutil.copyfile(log_of(path), log_of(copy))
        connection = sqlite3.connect(copy, isolation_level=None)
        try:
            _prepare(connection)
            schema.check(connection, str(path))
            return _backup(connection)
        finally:
            connection.close()


def _open_uri(path: Path, mode: str, schema: Schema, busy_timeout_s: float) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)
    try:
        _prepare(connection)
        schema.check(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _backup(connection: sqlite3.Connection) -> sqlite3.Connection:
    copy = sqlite3.connect("", isolation_level=None)  # a temporary file that SQLite deletes
    try:
        connection.backup(copy)
        _prepare(copy)
        copy.execute("PRAGMA query_only = ON")
    except BaseException:
        copy.close()
        raise
    return copy


def _prepare(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")

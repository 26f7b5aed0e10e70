"""One SQLite file of a bank, used from one thread; other processes may use it too.

Every commit outlives a killed process (WAL). A commit that is `durable` also outlives a power cut.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from skillwright.bank.errors import BankError
from skillwright.bank.store.schema import SCHEMA
from skillwright.core.sqlite_file import BUSY_TIMEOUT_S, SqliteFile, Trouble


class BankFile(SqliteFile):
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
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(path, SCHEMA, read_only=read_only, busy_timeout_s=busy_timeout_s)
        except OSError as error:
            raise BankError(
                f"{path} cannot be made ({error.strerror}). Name another folder."
            ) from error

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Make all writes inside take effect together, or none of them.

        Inside another one it is part of that.

        Args:
            durable: Wait until the disk has it; the outermost one decides.

        Raises:
            BankError: The disk is full, or another process holds the file.
        """
        if self._connection is not None and self._connection.in_transaction:
            yield
            return
        self.rows(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
            self.rows("COMMIT")
        finally:
            self._roll_back()

    def advice(self, trouble: Trouble) -> str:
        """Say what became of the versions, and what to do."""
        match trouble:
            case Trouble.FULL:
                return (
                    "All earlier versions are safe, and nothing of this change was written. Free "
                    "some space and try again."
                )
            case Trouble.BUSY:
                return ", and try again."
            case Trouble.DAMAGED:
                return "import its last export into a new file."
            case Trouble.SEALED:
                return (
                    "It can be looked at there; to change it, copy it to a folder of your own and "
                    "name the copy."
                )
            case never:
                assert_never(never)

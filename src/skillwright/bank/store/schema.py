"""The tables of a bank's file, and how an older file becomes a newer one.

`PRAGMA user_version` counts the migrations that a file has been through. A release that changes a
table adds a migration at the end of `MIGRATIONS` and never touches the ones before it.

A version is what changed since the one before it: the bank at version v is, of every skill, its
last row up to v. So ten thousand skills and a hundred versions are ten thousand and some rows.
"""

import sqlite3
from collections.abc import Sequence

from skillwright.bank.errors import BankError

Migration = tuple[str, ...]

# Says "this is a bank of Skillwright" to `file` and to us; other SQLite files are refused.
APPLICATION_ID = 0x534B424B

_FIRST: Migration = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    """CREATE TABLE versions (
        version INTEGER PRIMARY KEY,
        digest TEXT NOT NULL,            -- Bank.digest
        issued TEXT NOT NULL,            -- JSON: the highest number by prefix
        meta TEXT                        -- JSON; NULL: as in the version before
    )""",
    """CREATE TABLE skills (
        number INTEGER PRIMARY KEY,      -- the order in which they came in
        id TEXT NOT NULL UNIQUE
    )""",
    """CREATE TABLE wordings (
        skill INTEGER NOT NULL REFERENCES skills (number),
        version INTEGER NOT NULL REFERENCES versions (version),
        content TEXT,                    -- BankSkill.content_digest
        body TEXT,                       -- JSON; NULL: the bank has the skill no more
        PRIMARY KEY (skill, version)
    ) WITHOUT ROWID""",
    """CREATE TABLE stats (
        skill INTEGER NOT NULL REFERENCES skills (number),
        version INTEGER NOT NULL REFERENCES versions (version),
        retrieved INTEGER NOT NULL,      -- totals as of the version
        episodes INTEGER NOT NULL,
        wins INTEGER NOT NULL,
        PRIMARY KEY (skill, version)
    ) WITHOUT ROWID""",
    """CREATE TABLE counts (
        skill INTEGER PRIMARY KEY REFERENCES skills (number),
        retrieved INTEGER NOT NULL,      -- totals as of now
        episodes INTEGER NOT NULL,
        wins INTEGER NOT NULL
    )""",
    "CREATE TABLE counted (episode TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE log (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL,
        before INTEGER NOT NULL,
        version INTEGER NOT NULL,
        reason TEXT NOT NULL,
        verdict TEXT,                    -- JSON
        step INTEGER,
        outcomes TEXT NOT NULL,          -- JSON
        time REAL NOT NULL               -- seconds since 1970, UTC
    )""",
    """CREATE TABLE vectors (
        embedder TEXT NOT NULL,
        content TEXT NOT NULL,
        vector BLOB NOT NULL,            -- float32, little-endian
        PRIMARY KEY (embedder, content)
    )""",
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST,)


def schema_version(connection: sqlite3.Connection) -> int:
    """Return how many migrations a file has been through; 0 for a new file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_version(
    connection: sqlite3.Connection, where: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Check that a file is a bank of this version, without changing it.

    Raises:
        BankError: It is no bank, or of another version.
    """
    version = _known_version(connection, where, len(migrations))
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise BankError(
            f"{where} is an empty file, and no bank yet; put skills into it with `skillwright bank "
            "import` or `bank distil`"
        )
    if version < len(migrations):
        raise BankError(
            f"{where} was written by an older Skillwright (schema {version}, now "
            f"{len(migrations)}); open it for writing once to bring it up to date"
        )


def migrate(
    connection: sqlite3.Connection, where: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring a new or older file up to date, all migrations in one transaction.

    Args:
        connection: In autocommit mode.
        where: The file, for messages.
        migrations: All there are, oldest first.

    Raises:
        BankError: The file is no bank, or was written by a newer version.
        sqlite3.Error: A migration failed; the file is as it was.
    """
    if _known_version(connection, where, len(migrations)) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have migrated meanwhile.
        for migration in migrations[_known_version(connection, where, len(migrations)) :]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _known_version(connection: sqlite3.Connection, where: str, newest: int) -> int:
    version = schema_version(connection)
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    if has_tables and application != APPLICATION_ID:
        raise BankError(f"{where} is an SQLite file, but no bank of Skillwright; name another file")
    if version > newest:
        raise BankError(
            f"{where} was written by a newer Skillwright (schema {version}, this one knows "
            f"{newest}); upgrade with `pip install --upgrade skillwright`"
        )
    return version

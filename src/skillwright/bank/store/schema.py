"""The tables of a bank's file, and how an older file becomes a newer one.

A version is what changed since the one before it: the bank at version v is, of every skill, its
last row up to v. So ten thousand skills and a hundred versions are ten thousand and some rows.
"""

from skillwright.bank.errors import BankError
from skillwright.core.sqlite_file import Migration, Schema

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

SCHEMA = Schema(
    kind="bank",
    holder="bank",
    application_id=APPLICATION_ID,
    migrations=(_FIRST,),
    error=BankError,
    if_empty=(
        "is an empty file, and no bank yet; put skills into it with `skillwright bank import` or "
        "`bank distil`"
    ),
)

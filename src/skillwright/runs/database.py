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

from skillwright.core import RunError
from skillwright.core.sqlite_file import BUSY_TIMEOUT_S, Schema, SqliteFile, Trouble
from skillwright.runs.folder import copy_to_resume

# The tables of a run's file.
#
# Texts that come again are stored once and referred to by number. What was said in an episode is
# one compressed text (`trajectories`); the columns are what one asks for. Money and tokens are in
# one ledger, ``usage``, for all callers.


# Marks runs of Skillwright; other SQLite files are refused.
APPLICATION_ID = 0x534B574C

_TABLES = (
    """CREATE TABLE texts (
        id INTEGER PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,  -- SHA-256 of the text
        body BLOB NOT NULL            -- zlib
    )""",
    """CREATE TABLE prompts (
        id INTEGER PRIMARY KEY,
        digest BLOB NOT NULL UNIQUE,  -- SHA-256 of the canonical JSON of all messages
        messages TEXT NOT NULL        -- JSON: [[role, text id, rest?], ...]
    )""",
    """CREATE TABLE episodes (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        phase TEXT NOT NULL,
        step INTEGER,
        env TEXT NOT NULL,
        task_id TEXT NOT NULL,
        task_type TEXT NOT NULL,
        task_description TEXT NOT NULL,
        split TEXT NOT NULL,
        extras INTEGER NOT NULL REFERENCES texts (id),    -- JSON
        draw INTEGER NOT NULL,
        seed INTEGER NOT NULL,
        agent TEXT NOT NULL,
        skill_version TEXT NOT NULL,
        skill INTEGER REFERENCES texts (id),
        reward REAL,
        failure_cause TEXT,
        failure_message TEXT,
        stop_reason TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        metrics TEXT NOT NULL,                            -- JSON
        opening INTEGER NOT NULL REFERENCES texts (id),
        said BLOB NOT NULL,                               -- zlib: see `trajectories`
        wall_s REAL NOT NULL,
        started_at REAL NOT NULL,                         -- seconds since 1970, UTC
        ended_at REAL NOT NULL,
        hard REAL,                                        -- NULL: the reward says it
        adapter_row BLOB,                                 -- zlib: JSON; NULL: no adapter's
        skill_ids TEXT,                                   -- JSON: [id, ...]; NULL: none
        skill_scores TEXT,                                -- JSON: [score, ...]; NULL: none
        CHECK ((reward IS NULL) <> (failure_cause IS NULL))
    )""",
    # Failures stay when a success comes later under the same key.
    """CREATE UNIQUE INDEX episodes_by_key ON episodes (key)
        WHERE reward IS NOT NULL AND key <> ''""",
    "CREATE INDEX episodes_by_phase ON episodes (phase, step)",
    "CREATE INDEX episodes_by_task ON episodes (task_id, draw)",
    """CREATE TABLE turns (
        episode INTEGER NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        seed INTEGER NOT NULL,
        prompt_digest BLOB NOT NULL,
        finish_reason TEXT NOT NULL,
        usage TEXT NOT NULL,                              -- JSON, fields that are not 0
        token_ids TEXT,                                   -- JSON
        logprobs TEXT,                                    -- JSON
        user TEXT,                                        -- JSON: a simulated user's turn
        reward REAL NOT NULL,
        called BLOB,          -- zlib: JSON: {"calls": [[id, name, arguments], ...], "native": ...}
        PRIMARY KEY (episode, position)
    ) WITHOUT ROWID""",
    """CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        purpose TEXT NOT NULL,
        step INTEGER,
        identity TEXT NOT NULL,
        prompt INTEGER NOT NULL REFERENCES prompts (id),
        output INTEGER REFERENCES texts (id),
        reasoning INTEGER REFERENCES texts (id),
        tool_calls TEXT NOT NULL,                         -- JSON: [[id, name, arguments], ...]
        finish_reason TEXT NOT NULL,
        model TEXT NOT NULL,
        error TEXT,
        ended_at REAL NOT NULL,
        wall_s REAL NOT NULL,
        CHECK ((output IS NULL) <> (error IS NULL))
    )""",
    "CREATE UNIQUE INDEX calls_by_key ON calls (key) WHERE error IS NULL",
    """CREATE TABLE usage (
        id INTEGER PRIMARY KEY,
        purpose TEXT NOT NULL,
        episode INTEGER REFERENCES episodes (id) ON DELETE CASCADE,
        call INTEGER REFERENCES calls (id) ON DELETE CASCADE,
        calls INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        failed_calls INTEGER NOT NULL,
        cost_usd REAL,                                    -- NULL: unknown, which is not 0
        cache_write_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        cache_hits INTEGER NOT NULL,
        seconds REAL NOT NULL
    )""",
    "CREATE INDEX usage_by_episode ON usage (episode)",
    "CREATE INDEX usage_by_call ON usage (call)",
    """CREATE TABLE skills (
        version INTEGER PRIMARY KEY,
        text INTEGER NOT NULL REFERENCES texts (id),
        hash TEXT NOT NULL,
        parent INTEGER REFERENCES skills (version),
        origin TEXT NOT NULL,
        step INTEGER,
        created_at REAL NOT NULL
    )""",
    """CREATE TABLE patches (
        step INTEGER NOT NULL,
        id TEXT NOT NULL,
        level INTEGER NOT NULL,                           -- 0: an analyst's; above: a merge's
        source_type TEXT NOT NULL,
        inputs TEXT NOT NULL,                             -- JSON: task ids, or edit ids of a merge
        edits TEXT NOT NULL,                              -- JSON: ids of the edits it holds
        reasoning INTEGER NOT NULL REFERENCES texts (id),
        details INTEGER NOT NULL REFERENCES texts (id),   -- JSON
        prompt_digest BLOB,
        failure_cause TEXT,
        failure_message TEXT,
        PRIMARY KEY (step, id)
    ) WITHOUT ROWID""",
    """CREATE TABLE edits (
        step INTEGER NOT NULL,
        id TEXT NOT NULL,
        stage TEXT NOT NULL,                              -- proposed, merged or selected
        op TEXT NOT NULL,
        target INTEGER NOT NULL REFERENCES texts (id),
        content INTEGER NOT NULL REFERENCES texts (id),
        source_type TEXT,
        support INTEGER,
        merge_level INTEGER,
        update_origin TEXT NOT NULL,
        update_target TEXT NOT NULL,
        parents TEXT NOT NULL,                            -- JSON: ids of edits of the same step
        evidence TEXT NOT NULL,                           -- JSON: [[task id, [turn, ...]], ...]
        prompt_digest BLOB,
        status TEXT NOT NULL,
        first_line INTEGER,
        last_line INTEGER,
        PRIMARY KEY (step, id)
    ) WITHOUT ROWID""",
    """CREATE TABLE verdicts (
        step INTEGER NOT NULL,
        origin TEXT NOT NULL,
        candidate TEXT NOT NULL,
        decision TEXT NOT NULL,
        effect REAL,
        low REAL,
        high REAL,
        p_value REAL,
        rollouts INTEGER NOT NULL,
        reason TEXT NOT NULL,
        body TEXT NOT NULL,                               -- JSON: the whole verdict
        decided_at REAL NOT NULL,
        PRIMARY KEY (step, origin)
    ) WITHOUT ROWID""",
    """CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        payload TEXT NOT NULL,                            -- JSON
        time REAL NOT NULL
    )""",
    "CREATE INDEX events_by_kind ON events (kind)",
)


SCHEMA = Schema(
    kind="run",
    holder="store",
    application_id=APPLICATION_ID,
    version=7,
    tables=_TABLES,
    error=RunError,
    if_empty=(
        "is empty: the run was killed before it began, or its file was cut. Restore the file from "
        "a copy, or start a new run"
    ),
)


# Below the number of variables that any SQLite build allows in a statement (999).
_CHUNK = 500


class Database(SqliteFile):
    """A run's file, open.

    Args:
        path: The file; created unless ``read_only``.
        read_only: Change nothing; another process may write meanwhile.
        busy_timeout_s: Maximum seconds to wait for another writer.

    Raises:
        RunError: The file is missing, no run, damaged, locked, or of another version.
    """

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self._depth = 0
        self._is_durable: bool | None = None  # as the file was set; nothing yet
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
        """Commit all writes inside together, or none; a nested one joins the outer transaction.

        Args:
            durable: Wait for the disk; the outermost transaction decides.

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
        """Return a message about what is saved, and how to resume."""
        resume = f"`skillwright resume {self.path.parent}`"
        match trouble:
            case Trouble.FULL:
                return f"{self._saved()} Free some space, then continue with {resume}."
            case Trouble.BUSY:
                return f"; then continue with {resume}."
            case Trouble.DAMAGED:
                return "start a new run."
            case Trouble.READ_ONLY_FOLDER:
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

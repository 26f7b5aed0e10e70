"""The tables of a bank's file: versions, skills, counts, vectors and the log.

A version stores its changes: the bank at version v has the last row up to v of every skill. Every
commit survives a killed process (WAL); a durable one also survives a power cut.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, assert_never

import numpy as np
from numpy.typing import NDArray

from skillwright.bank.bank import Bank, BankError, SkillStats
from skillwright.bank.changes import (
    Add,
    Approve,
    Change,
    ChangeReport,
    Decision,
    Outcome,
    Refine,
    Retire,
)
from skillwright.bank.formats.interchange import item_of, skill_of
from skillwright.core import BankSkill, DataError
from skillwright.core.jsonio import dumps
from skillwright.core.sqlite_file import BUSY_TIMEOUT_S, Schema, SqliteFile, Trouble

# The application id identifies the file for `file` and for us; other SQLite files are refused.
APPLICATION_ID = 0x534B424B

_TABLES = (
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
    version=2,
    tables=_TABLES,
    error=BankError,
    if_empty=(
        "is an empty file, and no bank yet; put skills into it with `skillwright bank import` or "
        "`bank distill`"
    ),
)


class BankFile(SqliteFile):
    """An open bank file, used from one thread; other processes may use it too.

    Args:
        path: The file; created, with its folder, and migrated unless ``read_only``.
        read_only: Change nothing.
        busy_timeout_s: How long to wait for another process that writes.

    Raises:
        BankError: The file is missing, not a bank, damaged, locked, or of another version.
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
        """Commit all writes inside together, or none of them; may be nested.

        Args:
            durable: Flush to disk; the outermost transaction decides.

        Raises:
            BankError: The disk is full, or another process locks the file.
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
        """Return what is safe and what to do."""
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
            case Trouble.READ_ONLY_FOLDER:
                return (
                    "It can be looked at there; to change it, copy it to a folder of your own and "
                    "name the copy."
                )
            case never:
                assert_never(never)


# SQLite takes the bare columns of a group from the row that has the maximum.
_WORDINGS_AS_OF = """
    SELECT * FROM (
        SELECT skills.number, skills.id, content, body, max(version)
        FROM wordings JOIN skills ON skills.number = wordings.skill
        WHERE version <= ? GROUP BY wordings.skill
    ) WHERE body IS NOT NULL ORDER BY number
"""


class WordingTable:
    """The tables ``skills`` and ``wordings``."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def as_of(self, version: int) -> tuple[tuple[BankSkill, ...], dict[str, str]]:
        """Return the skills of a version, and their content digests by id.

        Raises:
            ValueError, DataError: A skill cannot be read.
        """
        rows = self._file.rows(_WORDINGS_AS_OF, (version,))
        skills = tuple(_read(row["id"], row["body"], row["content"]) for row in rows)
        return skills, {row["id"]: row["content"] for row in rows}

    def keep(self, before: Bank, after: Bank) -> None:
        """Store the differences between a version and the next one."""
        old = {skill.id: skill for skill in before.skills}
        changed = [skill for skill in after.skills if old.get(skill.id) != skill]
        self._file.write_many(
            "INSERT OR IGNORE INTO skills (id) VALUES (?)", [(skill.id,) for skill in changed]
        )
        digests = after.content_digests
        rows: list[tuple[Any, ...]] = [
            (after.version, digests[skill.id], _written(skill), skill.id) for skill in changed
        ]
        rows += [(after.version, None, None, key) for key in old if key not in after]
        self._file.write_many(
            "INSERT INTO wordings (skill, version, content, body)"
            " SELECT number, ?, ?, ? FROM skills WHERE id = ?",
            rows,
        )


def _written(skill: BankSkill) -> str:
    item = item_of(skill, SkillStats())
    return dumps({key: value for key, value in item.items() if key not in ("id", "stats")})


def _read(skill_id: str, body: str, content: str) -> BankSkill:
    skill, _ = skill_of({"id": skill_id, **json.loads(body)}, f"skill {skill_id}")
    if skill.content_digest != content:
        raise DataError(f"skill {skill_id} does not have the digest that was kept")
    return skill


_STATS_AS_OF = """
    SELECT skills.id, stats.retrieved, stats.episodes, stats.wins, max(stats.version)
    FROM stats JOIN skills ON skills.number = stats.skill
    WHERE stats.version <= ? GROUP BY stats.skill ORDER BY stats.skill
"""
_ADD = """
    INSERT INTO counts SELECT number, ?, ?, ? FROM skills WHERE id = ?
    ON CONFLICT (skill) DO UPDATE SET retrieved = retrieved + excluded.retrieved,
        episodes = episodes + excluded.episodes, wins = wins + excluded.wins
"""
_FREEZE = """
    INSERT INTO stats SELECT counts.skill, ?, counts.retrieved, counts.episodes, counts.wins
    FROM counts LEFT JOIN (
        SELECT skill, retrieved, episodes, wins, max(version) FROM stats GROUP BY skill
    ) AS last ON last.skill = counts.skill
    WHERE last.skill IS NULL OR (counts.retrieved, counts.episodes, counts.wins)
        <> (last.retrieved, last.episodes, last.wins)
"""


@dataclass(frozen=True, slots=True)
class CountedEpisode:
    """An episode with injected skills.

    Attributes:
        key: Its identity; an episode is counted once. "" is counted every time.
        skill_ids: The injected skills.
        solved: ``None`` if a fault ended it, which says nothing about the skills.
    """

    key: str
    skill_ids: tuple[str, ...]
    solved: bool | None


class CountTable:
    """The tables ``counts``, ``counted`` and ``stats``."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def add(self, episodes: Iterable[CountedEpisode]) -> None:
        """Count episodes that were not counted yet; unknown skill ids are ignored."""
        for episode in episodes:
            if episode.key and not self._file.rows(
                "INSERT OR IGNORE INTO counted VALUES (?) RETURNING episode", (episode.key,)
            ):
                continue
            scored = int(episode.solved is not None)
            self._file.write_many(
                _ADD,
                [
                    (1, scored, int(bool(episode.solved)), skill_id)
                    for skill_id in dict.fromkeys(episode.skill_ids)
                ],
            )

    def begin(self, stats: Mapping[str, SkillStats]) -> None:
        """Copy the statistics of a bank that is imported into an empty store."""
        self._file.write_many(
            _ADD, [(one.retrieved, one.episodes, one.wins, key) for key, one in stats.items()]
        )

    def freeze(self, version: int) -> None:
        """Store the current totals as those of a version."""
        self._file.rows(_FREEZE, (version,))

    def as_of(self, version: int) -> dict[str, SkillStats]:
        """Return the totals of a version, by id."""
        rows = self._file.rows(_STATS_AS_OF, (version,))
        return {row[0]: SkillStats(row[1], row[2], row[3]) for row in rows}

    def totals(self) -> dict[str, SkillStats]:
        """Return the current totals, by id."""
        rows = self._file.rows(
            "SELECT id, retrieved, episodes, wins FROM counts JOIN skills ON number = skill"
            " ORDER BY number"
        )
        return {row[0]: SkillStats(row[1], row[2], row[3]) for row in rows}


Vector = NDArray[np.float32]
"""A vector, shape ``[d]``."""

_STORED: Any = np.dtype("<f4")


class VectorTable:
    """The table ``vectors``."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def keep(self, embedder: str, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by content digest; existing ones stay."""
        self._file.write_many(
            "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)",
            [
                (embedder, content, np.ascontiguousarray(vector, dtype=_STORED).tobytes())
                for content, vector in vectors.items()
            ],
        )

    def of(self, embedder: str) -> dict[str, Vector]:
        """Return an embedder's vectors by content digest."""
        rows = self._file.rows(
            "SELECT content, vector FROM vectors WHERE embedder = ? ORDER BY rowid", (embedder,)
        )
        return {row[0]: self._read(row[1]) for row in rows}

    def _read(self, body: Any) -> Vector:
        if isinstance(body, bytes) and len(body) % _STORED.itemsize == 0:
            vector: Vector = np.frombuffer(body, dtype=_STORED).astype(np.float32)
            if np.isfinite(vector).all():
                return vector
        raise BankError(
            f"{self._file.path} is damaged (a vector of its skills is none). Restore it from a "
            f"copy, or {self._file.advice(Trouble.DAMAGED)}"
        )


class LogEvent(StrEnum):
    """The type of a log entry."""

    CHANGED = "changed"
    """A new version was created."""
    UNCHANGED = "unchanged"
    """Every change of an update was refused, so there is no new version."""
    REJECTED = "rejected"
    """A candidate did not pass the gate."""
    ROLLED_BACK = "rolled_back"
    """A new version that equals an old one was created."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of a bank's log.

    Attributes:
        number: From 1, increasing.
        before: The version before the event.
        version: The version after it.
        reason: The caller's reason.
        verdict: The gate's verdict as JSON values; ``None`` without a gate.
        step: The training step or epoch, if any.
        outcomes: The result of each change: objects with ``op``, the fields of the change,
            ``decision``, ``skill`` (its id) and ``because``.
        time: Seconds since 1970, UTC; for display, never for decisions.
    """

    number: int
    event: LogEvent
    before: int
    version: int
    reason: str
    verdict: Mapping[str, Any] | None
    step: int | None
    outcomes: tuple[Mapping[str, Any], ...]
    time: float


def entry_of(row: sqlite3.Row) -> LogEntry:
    """Read an entry from its row."""
    return LogEntry(
        row["number"],
        LogEvent(row["event"]),
        row["before"],
        row["version"],
        row["reason"],
        row["verdict"] and json.loads(row["verdict"]),
        row["step"],
        tuple(json.loads(row["outcomes"])),
        row["time"],
    )


def outcomes_json(report: ChangeReport) -> str:
    """Serialize the outcome of each change."""
    return dumps([_outcome(one) for one in report.outcomes])


def proposed_json(changes: Iterable[Change]) -> str:
    """Serialize rejected changes."""
    outcomes = (Outcome(one, Decision.REFUSED, "", "the candidate was rejected") for one in changes)
    return outcomes_json(ChangeReport(tuple(outcomes)))


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        **_change(outcome.change),
        "decision": str(outcome.decision),
        "skill": outcome.id,
        "because": outcome.reason,
    }


OPS: Final[Mapping[type[Change], str]] = {
    Add: "add",
    Refine: "refine",
    Retire: "retire",
    Approve: "approve",
}


def _change(change: Change) -> dict[str, Any]:
    op = OPS[type(change)]
    if isinstance(change, Add):
        item = item_of(change.draft, SkillStats())
        return {"op": op, "draft": {key: item[key] for key in item if key not in ("id", "stats")}}
    said = asdict(change)
    return {"op": op, **{key: value for key, value in said.items() if value is not None}}

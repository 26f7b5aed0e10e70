"""The store of a run: one SQLite file with everything that happened.

State is rebuilt from `events`; episodes and calls are found again by their keys. A killed run
resumes from there: what was recorded is not done again, and is read back as it was.

One store has one writer, on one thread. Other processes may read the file meanwhile.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from skillwright.core.clock import steady_time
from skillwright.core.secrets import Redactor
from skillwright.runs.archive import Archive, to_json
from skillwright.runs.calls import CallTable, UsageTable
from skillwright.runs.database import Database
from skillwright.runs.episodes import EpisodeTable
from skillwright.runs.learning import LearningTable

_COUNTED = ("turns", "calls", "skills", "patches", "edits", "verdicts", "events")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        id: From 1, rising.
        time: Seconds since 1970, UTC; never used for decisions.
    """

    id: int
    kind: str
    payload: dict[str, Any]
    time: float


class RunStore(EpisodeTable, CallTable, UsageTable, LearningTable):
    """Everything that happened in a run.

    Args:
        database: Open database.
        redactor: Removes the run's secrets from all writes.
        clock: Returns seconds since 1970.
    """

    def __init__(self, database: Database, redactor: Redactor, clock: Callable[[], float]) -> None:
        super().__init__(Archive(database, redactor), clock)
        self._redactor = redactor

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = steady_time,
    ) -> Self:
        """Open a run's file; created if missing.

        Args:
            path: The file.
            read_only: Change nothing; another process may write meanwhile.
            redactor: Removes the run's secrets from all writes.
            clock: Returns seconds since 1970.

        Raises:
            RunError: The file is missing, no run, damaged, or written by a newer version.
        """
        return cls(Database(path, read_only=read_only), redactor or Redactor(), clock)

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self._database.path.parent

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Commit all writes inside together, or none. Never await inside.

        Args:
            durable: Wait for the disk; the outermost transaction decides.
        """
        return self._database.transaction(durable=durable)

    def append_event(self, kind: str, payload: Mapping[str, Any]) -> int:
        """Append an event, with its secrets removed, and return its id.

        Raises:
            TypeError: The payload is no JSON.
            ValueError: It holds NaN or an infinity.
        """
        body = to_json(self._redactor.facts(dict(payload)))
        return self._database.write(
            "INSERT INTO events (kind, payload, time) VALUES (?, ?, ?)", (kind, body, self._clock())
        )

    def events(self, kind: str | None = None, *, after: int = 0) -> list[Event]:
        """List events in the order in which they happened."""
        rows = self._database.rows(
            "SELECT id, kind, payload, time FROM events"
            " WHERE id > ? AND (? IS NULL OR kind = ?) ORDER BY id",
            (after, kind, kind),
        )
        return [Event(row[0], row[1], json.loads(row[2]), row[3]) for row in rows]

    def first_event_time(self) -> float | None:
        """Return when the run began, in seconds since 1970; ``None`` before its first event."""
        row = self._database.row("SELECT time FROM events ORDER BY id LIMIT 1", ())
        return None if row is None else float(row["time"])

    def hides(self, *texts: str) -> bool:
        """Tell whether texts hold a known secret, which is not stored with them."""
        return any(self._redactor.exact(text) != text for text in texts)

    def counts(self) -> dict[str, int]:
        """Count what is recorded: scored episodes, failures, and the rows of every other kind."""
        parts = [
            "(SELECT count(*) FROM episodes WHERE reward IS NOT NULL) AS episodes",
            "(SELECT count(*) FROM episodes WHERE reward IS NULL) AS failures",
            *(f"(SELECT count(*) FROM {table}) AS {table}" for table in _COUNTED),
        ]
        row = self._database.rows(f"SELECT {', '.join(parts)}")[0]
        return dict(zip(row.keys(), row, strict=True))

"""The memory of a run: one SQLite file that holds everything that happened.

State is a fold over `events`; episodes and calls are found again by their keys. A killed run goes
on from there: what was recorded is not done again, and what is read back equals what was recorded.

One store has one writer, on one thread. Other processes may read the file meanwhile.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from skillwright.core import Completion, EpisodeResult, Message, Task, Usage
from skillwright.core.secrets import Redactor
from skillwright.runs.archive import Archive
from skillwright.runs.calls import CallRecord, CallSummary, CallTable
from skillwright.runs.columns import to_json
from skillwright.runs.database import Database
from skillwright.runs.episodes import EpisodeSummary, EpisodeTable
from skillwright.runs.learning import (
    EditRecord,
    LearningTable,
    PatchRecord,
    SkillVersion,
    VerdictRecord,
)
from skillwright.runs.ledger import Bill, bill, spend, usage_by_purpose, usage_since

_COUNTED = ("turns", "calls", "skills", "patches", "edits", "verdicts", "events")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        id: From 1, rising.
        kind: What.
        payload: The facts, as JSON values.
        time: Seconds since 1970, UTC; for people, never for decisions.
    """

    id: int
    kind: str
    payload: dict[str, Any]
    time: float


class RunStore:
    """Everything that happened in a run.

    Args:
        database: The open file.
        redactor: Takes the run's secrets out of whatever is written.
        clock: Tells the time, in seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        redactor: Redactor,
        clock: Callable[[], float],
    ) -> None:
        archive = Archive(database, redactor)
        self._database = database
        self._redactor = redactor
        self._clock = clock
        self._archive = archive
        self._episodes = EpisodeTable(archive, clock)
        self._calls = CallTable(archive, clock)
        self._learning = LearningTable(archive, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open a run's file; it is made if it is not there, and brought up to date if it is old.

        Args:
            path: The file.
            read_only: Look, change nothing; the run may be going on in another process.
            redactor: Takes the run's secrets out of whatever is written.
            clock: Tells the time, in seconds since 1970.

        Raises:
            RunError: The file is missing, no run, damaged, or written by a newer version.
        """
        return cls(Database(path, read_only=read_only), redactor or Redactor(), clock)

    @property
    def folder(self) -> Path:
        """The folder that the file lies in: the run's."""
        return self._database.path.parent

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Make all writes inside take effect together, or none of them. Never await inside.

        Args:
            durable: Wait until the disk has it. The outermost transaction decides.
        """
        return self._database.transaction(durable=durable)

    # Events

    def append_event(self, kind: str, payload: Mapping[str, Any]) -> int:
        """Append an event and return its id; its payload is stored without what looks secret.

        Raises:
            TypeError: The payload holds what is no JSON value.
            ValueError: It holds NaN or an infinity.
        """
        body = to_json(self._redactor.facts(dict(payload)))
        return self._database.write(
            "INSERT INTO events (kind, payload, time) VALUES (?, ?, ?)",
            (kind, body, self._clock()),
        )

    def events(self, kind: str | None = None, *, after: int = 0) -> list[Event]:
        """List events in the order in which they happened.

        Args:
            kind: Only of this kind.
            after: Only those with a higher id.
        """
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

    # Episodes

    def record_episode(
        self,
        result: EpisodeResult,
        *,
        agent: str = "",
        skill: str | None = None,
        usage: Mapping[str, Usage] | None = None,
    ) -> int:
        """Record a finished episode with its turns, in one transaction.

        A failure is recorded too, beside the success that may come later under the same key. A
        success under a key that has one already is not recorded again.

        Args:
            result: What came of it.
            agent: The identity of who acted.
            skill: The skill text that the agent was told.
            usage: What was consumed, by purpose; ``None`` means the agent's part that stands in
                the trajectory, with what was lost before it, under ``rollout``.

        Returns:
            The episode's number.

        Raises:
            ContractError: The environment reported what JSON cannot carry.
            RunError: The disk is full; what was recorded before is safe.
        """
        return self._episodes.record(result, agent=agent, skill=skill, usage=usage)

    def hides(self, *texts: str) -> bool:
        """Tell whether texts hold a known secret, which is not stored with them."""
        return any(self._redactor.exact(text) != text for text in texts)

    def find_episode(self, key: str) -> EpisodeResult | None:
        """Return the episode with a reward under a key, equal to what was recorded, or ``None``."""
        return self._episodes.find(key)

    def lone_failures(self) -> set[str]:
        """Return the keys of episodes that failed while others, recorded later, did not."""
        return self._episodes.lone_failures()

    def load_episode(self, episode: int) -> EpisodeResult:
        """Return an episode by its number, failures included.

        Raises:
            RunError: There is none.
        """
        return self._episodes.load(episode)

    def task(self, episode: int) -> Task:
        """Return what an episode attempted, by the episode's number; its turns are not read.

        Raises:
            RunError: There is none.
        """
        return self._episodes.task(episode)

    def injected_skill(self, episode: int) -> str | None:
        """Return the skill text that was stored with an episode; ``None`` where its prompt has it.

        Raises:
            RunError: There is no such episode.
        """
        return self._episodes.injected_skill(episode)

    def episodes(
        self,
        *,
        phase: str | None = None,
        split: str | None = None,
        step: int | None = None,
        task_id: str | None = None,
    ) -> list[EpisodeSummary]:
        """Summarise episodes, in order of task, draw and recording.

        Args:
            phase: Only those of this phase.
            split: Only those of this split.
            step: Only those of this training step.
            task_id: Only those of this task.
        """
        filters = {"phase": phase, "split": split, "step": step, "task_id": task_id}
        return self._episodes.summaries(
            {column: value for column, value in filters.items() if value is not None}
        )

    def prompt(self, digest: str) -> tuple[Message, ...]:
        """Return the prompt of a call by the digest of its messages.

        Raises:
            RunError: There is none.
        """
        return self._archive.prompt(digest)

    # Calls and what everything cost

    def record_call(self, call: CallRecord) -> None:
        """Record an optimiser call with its answer or its error, and what it consumed."""
        self._calls.record(call)

    def find_call(self, key: str) -> Completion | None:
        """Return the answer under a key, equal to what was recorded, or ``None``."""
        return self._calls.find(key)

    def calls(self) -> list[CallSummary]:
        """Summarise the optimiser's calls, failed ones included, in order of recording."""
        return self._calls.summaries()

    def record_usage(self, usage: Mapping[str, Usage]) -> None:
        """Record what was consumed for nothing that is stored itself, by purpose."""
        with self.transaction():
            spend(self._database, {name: one for name, one in usage.items() if one != Usage()})

    def bill(self, after: int = 0) -> Bill:
        """Return what was consumed after an entry of the ledger, with what is unknown of it."""
        return bill(self._database, after)

    def usage_by_purpose(self) -> dict[str, Usage]:
        """Return what was consumed so far per purpose, over all resumes, failures included."""
        return usage_by_purpose(self._database)

    def usage_since(self, entry: int = 0) -> tuple[Usage, int]:
        """Return what was consumed after an entry of the ledger, and the latest entry's number."""
        return usage_since(self._database, entry)

    # Learning

    def add_skill_version(
        self, text: str, *, parent: int | None = None, origin: str = "", step: int | None = None
    ) -> int:
        """Add a version of the skill and return its number; the first is 0."""
        return self._learning.add_skill(text, parent, origin, step)

    def skill(self, version: int) -> str:
        """Return the text of a skill version.

        Raises:
            RunError: There is no such version.
        """
        return self._learning.skill(version)

    def skills(self) -> list[SkillVersion]:
        """List the skill versions, oldest first."""
        return self._learning.skills()

    def record_patches(self, patches: Iterable[PatchRecord]) -> None:
        """Record patches; those known by step and id are updated."""
        self._learning.record_patches(patches)

    def patches(self, step: int | None = None) -> list[PatchRecord]:
        """List patches, of one step or all, by step, level and id."""
        return self._learning.patches(step)

    def record_edits(self, edits: Sequence[EditRecord]) -> None:
        """Record edits; those known by step and id are updated."""
        self._learning.record_edits(edits)

    def edits(self, step: int | None = None) -> list[EditRecord]:
        """List edits, of one step or all, each with the gate's decision on its step."""
        return self._learning.edits(step)

    def record_verdict(self, verdict: VerdictRecord) -> None:
        """Record a gate's decision, and wait until the disk has it."""
        self._learning.record_verdict(verdict)

    def verdicts(self) -> list[VerdictRecord]:
        """List the gate's decisions by step and origin."""
        return self._learning.verdicts()

    # Everything

    def turn_ends(self) -> dict[str, int]:
        """Count the turns of scored episodes by how the agent's answer ended."""
        rows = self._database.rows(
            """SELECT t.finish_reason AS ending, count(*) AS turns FROM turns t
                JOIN episodes e ON e.id = t.episode WHERE e.reward IS NOT NULL
                GROUP BY t.finish_reason"""
        )
        return {row["ending"]: row["turns"] for row in rows}

    def counts(self) -> dict[str, int]:
        """Count what is recorded: scored episodes, failures, and the rows of every other kind."""
        parts = [
            "(SELECT count(*) FROM episodes WHERE reward IS NOT NULL) AS episodes",
            "(SELECT count(*) FROM episodes WHERE reward IS NULL) AS failures",
            *(f"(SELECT count(*) FROM {table}) AS {table}" for table in _COUNTED),
        ]
        row = self._database.rows(f"SELECT {', '.join(parts)}")[0]
        return dict(zip(row.keys(), row, strict=True))

"""Reads a run's store for pages; aggregates are computed in SQL."""

import json
import re
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from skillwright.core import skill_hash
from skillwright.core.secrets import Redactor
from skillwright.jobs.bank import threshold_of
from skillwright.jobs.inspect import Reply
from skillwright.jobs.kinds import RL, UNUSABLE
from skillwright.jobs.run import MADE
from skillwright.jobs.text import Kind, LinesRecord, decision_text
from skillwright.jobs.weights import TEST_EPISODES, RlKind, weights_name
from skillwright.runs import RunStore
from skillwright.runs.database import Database
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME
from skillwright.runs.window import find_in

PAGE = 50
"""Rows per page."""
_AROUND = 60
"""Characters around a match."""
_BANK_VERSION = re.compile(r"(\d+):[0-9a-f]{12}")
_OTHER_SCOPE = "other_scope"
# One control has the same weights and bank as the tested artifact: only the test's event says which
# episodes belong to it.
_TESTED = f"""(SELECT each.value FROM events v, json_each(v.payload, '$.{TEST_EPISODES}.%s') each
    WHERE v.kind = '{RlKind.TEST}')"""
_IN_OTHER_SCOPE = (
    f"e.key IN {_TESTED % _OTHER_SCOPE} AND e.key NOT IN {_TESTED % 'final'} THEN '{_OTHER_SCOPE}'"
)
INITIAL = "initial skill"
"""The place of remarks on the score before training."""
_STAGES = ("proposed", "dropped", "merged", "selected", "applied")
"""Stages of an edit, in order."""
_FAULTS, _MESSAGE = 50, 400
"""Kinds of failures that are shown, and characters of a message."""
_SEARCH_S = 0.04
"""Maximum seconds of a search per request; the next request continues."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Labels of the versions that were played.

    A version is a text's hash. In a run that trains weights, where the text may stay the same, it
    is a policy and a text, with a line break between them.

    Attributes:
        labels: Labels of texts and tested artifacts, by hash.
        iterations: Iteration by identity of the policy, 0 after the cold start; ``None`` where
            no weights are trained.
    """

    labels: Mapping[str, str]
    iterations: Mapping[str, int] | None

    @property
    def column(self) -> str:
        """The version of an episode, as SQL on ``episodes e``."""
        if self.iterations is None:
            return "e.skill_version"
        return f"e.agent || char(10) || CASE WHEN {_IN_OTHER_SCOPE} ELSE e.skill_version END"

    def label(self, version: str) -> str:
        """Return the label of a version."""
        if self.iterations is None:
            return self._text(version) or "none"
        agent, _, text = version.partition("\n")
        text = self._text(text)
        return f"{self._agent(agent)}, {text}" if text else self._agent(agent)

    def place(self, version: str) -> int:
        """Return the position of a version; unknown ones come last."""
        if self.iterations is None:
            known = list(self.labels)
            return known.index(version) if version in known else len(known)
        identity = version.partition("\n")[0].rpartition(" t=")[0]
        return self.iterations.get(identity, len(self.iterations) + 10**9)

    def _agent(self, agent: str) -> str:
        number = (self.iterations or {}).get(agent.rpartition(" t=")[0])
        if number is None:
            return agent
        return weights_name(number)

    def _text(self, version: str) -> str:
        if version in self.labels:
            return self.labels[version]
        document, _, bank = version.rpartition("+")
        number = _BANK_VERSION.fullmatch(bank)
        if number is None:
            return version[:12]
        name = f"bank v{number[1]}"
        return f"{self._text(document)} + {name}" if document else name


ORDERS = {
    "episode": "e.id",
    "task": "e.task_id",
    "score": "coalesce(e.hard, e.reward)",
    "turns": "turns",
}
"""Orders of a list of episodes, as SQL."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on episodes; empty ones are ignored.

    Attributes:
        sort: A key of `ORDERS`, with ``-`` for descending; "" lists the latest first.
    """

    phase: str = ""
    split: str = ""
    task_type: str = ""
    task: str = ""
    version: str = ""
    outcome: str = ""
    step: int | None = None
    text: str = ""
    sort: str = ""

    def conditions(self, threshold: float, version: str) -> tuple[str, list[Any]]:
        """Return an SQL condition on ``episodes e``, and its values.

        Args:
            threshold: Minimum score of success.
            version: `Versions.column`.
        """
        parts, values = ["1"], list[Any]()
        for column, value in (
            ("e.phase", self.phase),
            ("e.split", self.split),
            ("e.task_type", self.task_type),
            ("e.task_id", self.task),
            (version, self.version),
            ("e.step", self.step),
        ):
            if value not in ("", None):
                parts.append(f"{column} = ?")
                values.append(value)
        match self.outcome:
            case "solved":
                parts.append("coalesce(e.hard, e.reward) >= ?")
                values.append(threshold)
            case "unsolved":
                parts.append("coalesce(e.hard, e.reward) < ?")
                values.append(threshold)
            case "fault":
                parts.append("e.reward IS NULL")
        return " AND ".join(parts), values


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """A page of a list of episodes, the latest first.

    Attributes:
        total: Matching episodes; ``None`` for a search.
        next_before: Number below which the next page starts; ``None`` at the end.
        seen: Episodes that the search has read so far.
    """

    rows: list[dict[str, Any]]
    total: int | None
    next_before: int | None
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Faults:
    """Failures by cause.

    Attributes:
        episodes: (cause, message of one, how many, number of the latest), the most frequent first.
        calls: (purpose, error, how many).
        kinds: Number of different messages of episodes and of calls, those left out included.
    """

    episodes: list[tuple[str, str, int, int]] = field(default_factory=list)
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    kinds: tuple[int, int] = (0, 0)


class RunReader:
    """A run's file, open for one request; use `reading`."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.path = folder / STORE_NAME
        self.store = RunStore(database, Redactor(), time.time)
        self.database = database
        self.threshold = threshold_of(folder) if (folder / CONFIG_NAME).is_file() else 1.0

    @cached_property
    def trains_weights(self) -> bool:
        """Whether the run trains weights."""
        made = self.store.events(MADE)
        return bool(made) and made[0].payload.get("job") == RL

    @cached_property
    def versions(self) -> Versions:
        """Versions that were played in this run."""
        if not self.trains_weights:
            numbers = {one.hash: f"v{one.version}" for one in reversed(self.store.skills())}
            tested = [event.payload["skills"] for event in self.store.events(Kind.TEST_OPENED)]
            named = {key: plain(name) for one in tested for name, key in one.items()}
            return Versions(dict(reversed(numbers.items())) | (named | numbers), None)
        blank = dict.fromkeys((skill_hash(""), "nothing"), "no skills")
        measured = self.payloads(RlKind.VALIDATION)
        iterations = {one["policy"]: one["iteration"] for one in measured if one.get("policy")}
        first = self.payloads(RlKind.BANK)
        banks = self.database.rows("SELECT DISTINCT skill_version AS v FROM episodes")
        begun = f"{first[0]['version']}:" if first else "?"
        same = {row["v"]: "" for row in banks if row["v"].startswith(begun)}
        return Versions({**blank, **same, _OTHER_SCOPE: "skills of another place"}, iterations)

    def values_of(self, column: str) -> list[str]:
        """List the values of a column that episodes may be filtered by."""
        if column not in ("phase", "split", "task_type"):
            raise ValueError(f"episodes are not filtered by {column!r}")
        rows = self.database.rows(f"SELECT DISTINCT {column} AS v FROM episodes ORDER BY v")
        return [row["v"] for row in rows]

    def episodes(self, wanted: Filter, before: int | None = None) -> EpisodePage:
        """List episodes, the latest first, those below a number; or those after, where sorted."""
        if wanted.text:
            return self._search(wanted, before)
        where, values = wanted.conditions(self.threshold, self.versions.column)
        total = self.database.rows(f"SELECT count(*) FROM episodes e WHERE {where}", values)[0][0]
        if (key := wanted.sort.removeprefix("-")) in ORDERS:
            down = "DESC" if wanted.sort.startswith("-") else "ASC"
            order = f"{ORDERS[key]} {down}, e.id DESC LIMIT ? OFFSET ?"
            first = before or 0
            rows = self._selected(where, order, (*values, PAGE, first))
            return EpisodePage(rows, total, first + PAGE if first + PAGE < total else None)
        rows = self._rows(where, values, before, PAGE + 1)
        more = len(rows) > PAGE
        return EpisodePage(rows[:PAGE], total, rows[PAGE - 1]["id"] if more else None)

    def _rows(
        self, where: str, values: Sequence[Any], before: int | None, limit: int
    ) -> list[dict[str, Any]]:
        order = "e.id DESC LIMIT ?"
        bound = (*values, 2**62 if before is None else before, limit)
        return self._selected(f"{where} AND e.id < ?", order, bound)

    def every_row(self, wanted: Filter) -> list[dict[str, Any]]:
        """List all episodes that meet conditions other than a text, the latest first."""
        where, values = wanted.conditions(self.threshold, self.versions.column)
        return self._rows(where, values, None, -1)

    def _selected(self, where: str, order: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        rows = self.database.rows(
            f"""SELECT e.id, e.phase, e.step, e.split, e.task_id, e.task_type, e.draw,
                    {self.versions.column} AS version, e.reward, e.hard,
                    e.failure_cause, e.stop_reason, e.wall_s,
                    (SELECT count(*) FROM turns t WHERE t.episode = e.id) AS turns
                FROM episodes e WHERE {where} ORDER BY {order}""",
            values,
        )
        return [
            {
                **dict(row),
                "solved": self._solved(row),
                "match": "",
                "reply": Reply.read(self.store, row["id"], row["turns"]),
            }
            for row in rows
        ]

    def _solved(self, row: sqlite3.Row) -> bool | None:
        score = row["reward"] if row["hard"] is None else row["hard"]
        return None if score is None else bool(score >= self.threshold)

    def _search(self, wanted: Filter, before: int | None) -> EpisodePage:
        """Read episodes for a text until a page is full or the time is up."""
        where, values = wanted.conditions(self.threshold, self.versions.column)
        needle, until = wanted.text, time.monotonic() + _SEARCH_S
        found: list[dict[str, Any]] = []
        last, seen = before, 0
        while len(found) < PAGE and time.monotonic() < until:
            batch = self.database.rows(
                f"""SELECT e.id, e.task_description, e.said, t.body AS opening FROM episodes e
                    JOIN texts t ON t.id = e.opening
                    WHERE {where} AND e.id < ? ORDER BY e.id DESC LIMIT 20""",
                (*values, 2**62 if last is None else last),
            )
            if not batch:
                return EpisodePage(found, None, None, seen)
            for row in batch:
                seen, last = seen + 1, int(row["id"])
                if match := _match(row, needle):
                    (hit,) = self._rows("e.id = ?", [last], None, 1)
                    found.append({**hit, "match": match})
        return EpisodePage(found, None, last, seen)

    def latest(self, most: int) -> list[float]:
        """Return when the latest episodes ended, in seconds since 1970; the last one first."""
        rows = self.database.rows("SELECT ended_at FROM episodes ORDER BY id DESC LIMIT ?", (most,))
        return [row["ended_at"] for row in rows]

    def attempts(self, phase: str) -> int:
        """Count the attempts of a phase, without repetitions."""
        rows = self.database.rows(
            """SELECT count(*) FROM
                (SELECT DISTINCT task_id, draw, skill_version FROM episodes WHERE phase = ?)""",
            (phase,),
        )
        return int(rows[0][0])

    def neighbors(self, episode: int) -> tuple[int | None, int | None]:
        """Return the numbers of the episodes before and after one."""
        row = self.database.rows(
            "SELECT (SELECT max(id) FROM episodes WHERE id < ?),"
            " (SELECT min(id) FROM episodes WHERE id > ?)",
            (episode, episode),
        )[0]
        return row[0], row[1]

    def val_counts(self) -> dict[str, list[tuple[int, int]]]:
        """Return (solved, scored) val draws of each task, by version of the document."""
        rows = self.database.rows(
            """SELECT skill_version, coalesce(sum(coalesce(hard, reward) >= ?), 0) AS solved,
                    count(reward) AS scored
                FROM episodes WHERE split = 'val' AND reward IS NOT NULL
                GROUP BY skill_version, task_id""",
            (self.threshold,),
        )
        found: dict[str, list[tuple[int, int]]] = {}
        for row in rows:
            found.setdefault(row["skill_version"], []).append((row["solved"], row["scored"]))
        return found

    def injected(self) -> dict[str, tuple[int, int, int]]:
        """Return (contexts, scored episodes, solved ones) of each skill of a bank, by id."""
        rows = self.database.rows(
            """SELECT j.value, count(*), count(e.reward),
                    coalesce(sum(coalesce(e.hard, e.reward) >= ?), 0)
                FROM episodes e, json_each(e.skill_ids) j GROUP BY j.value""",
            (self.threshold,),
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def faults(self) -> Faults:
        """Count failures by cause; messages are compared by their first characters."""
        episodes = self.database.rows(
            f"""SELECT failure_cause AS cause,
                    coalesce(substr(failure_message, 1, {_MESSAGE}), '') AS message,
                    count(*) AS n, max(id) AS latest, count(*) OVER () AS kinds
                FROM episodes WHERE reward IS NULL GROUP BY cause, message
                ORDER BY n DESC, latest DESC LIMIT {_FAULTS}"""
        )
        calls = self.database.rows(
            f"""SELECT purpose, substr(error, 1, {_MESSAGE}) AS message, count(*) AS n,
                    count(*) OVER () AS kinds
                FROM calls WHERE error IS NOT NULL
                GROUP BY purpose, message ORDER BY n DESC, max(id) DESC LIMIT {_FAULTS}"""
        )
        return Faults(
            [(row["cause"], row["message"], row["n"], row["latest"]) for row in episodes],
            [(row["purpose"], row["message"], row["n"]) for row in calls],
            (_kinds(episodes), _kinds(calls)),
        )

    def remarks(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return (place, outcome, remarks) of decisions with remarks, and of skipped updates."""
        found = []
        for event in self.store.events():
            one = event.payload
            said = tuple(one.get("remarks", ()))
            match event.kind:
                case Kind.STEP | Kind.EPOCH if said or one["action"].startswith("skip"):
                    place = f"{event.kind} {one[event.kind]}"
                    found.append((place, _outcome(one["action"], said), said))
                case Kind.BASELINE if one.get("hints"):
                    found.append((INITIAL, "0% of val solved", tuple(one["hints"])))
                case Kind.LINES:
                    said = (LinesRecord.from_dict(one).sentence,)
                    found.append((f"step {one['step']}", "lines", said))
                case _ if event.kind == UNUSABLE:
                    found.append(("", "the run stopped", (one["message"],)))
        return found

    def funnel(self) -> list[dict[str, Any]]:
        """Count the edits of each step at each stage, with the step's outcome and its reason.

        Counts that an older version did not store are ``None``.
        """
        verdicts = {one.step: one.body for one in self.store.verdicts() if one.origin == "step"}
        found = []
        for one in self.payloads(Kind.STEP):
            verdict, remarks = verdicts.get(one["step"]), one.get("remarks", ())
            counts = dict.fromkeys(_STAGES) | one.get("edits", {})
            outcome = _outcome(one["action"], remarks)
            facts = {"verdict": verdict, "outcome": outcome, "remarks": remarks}
            found.append({"step": one["step"], **counts, **facts})
        return found

    def moment(self) -> str:
        """Return a value that changes with the store."""
        row = self.database.rows(
            "SELECT (SELECT max(id) FROM events), (SELECT max(id) FROM episodes),"
            " (SELECT max(id) FROM calls)"
        )[0]
        return "-".join(str(part or 0) for part in row)

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        """Return the payloads of events of a kind, in order."""
        return [event.payload for event in self.store.events(kind)]


def _outcome(action: str, remarks: Sequence[str]) -> str:
    return decision_text(action, None, remarks) if action.startswith("skip") else plain(action)


def _kinds(rows: Sequence[sqlite3.Row]) -> int:
    return int(rows[0]["kinds"]) if rows else 0


def plain(text: Any) -> str:
    """Write an identifier in words."""
    return str(text).replace("_", " ")


@contextmanager
def reading(folder: Path) -> Iterator[RunReader]:
    """Open a run's store, which may be written meanwhile, for one request.

    Raises:
        RunError: The file is missing, no run, damaged, or written by a newer version.
    """
    database = Database(folder / STORE_NAME, read_only=True)
    try:
        yield RunReader(folder, database)
    finally:
        database.close()


def _match(row: sqlite3.Row, needle: str) -> str:
    """Return the context of a text in an episode, or ``""``."""
    # The stored text is JSON, in which quotes and line breaks are escaped.
    needles = tuple(dict.fromkeys((needle, json.dumps(needle, ensure_ascii=False)[1:-1])))
    plain = zlib.compress(row["task_description"].encode("utf-8", "surrogatepass"), 0)
    for body in (plain, row["opening"], row["said"]):
        if found := find_in(body, needles, _AROUND):
            return " ".join(found.replace("\\n", " ").split())
    return ""

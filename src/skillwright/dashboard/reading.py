"""A run's store, read for pages: sums are made in SQL, and nothing is loaded that is not shown."""

import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from skillwright.core import RunError, SkillwrightError, Usage, did_you_mean
from skillwright.core.secrets import Redactor
from skillwright.core.sqlite_file import log_of
from skillwright.jobs.bank.distill import threshold_of
from skillwright.jobs.inspect.compare_sides import is_flipped
from skillwright.jobs.inspect.summary import RunSummary, read_folder
from skillwright.runs import RunFolder, RunStore, list_runs
from skillwright.runs.database import Database
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME
from skillwright.runs.window import find_in

PAGE = 50
"""Rows of a page."""
_AROUND = 60
"""Characters that are shown on either side of what was found."""
_SEARCH_S = 0.06
"""Seconds that one request may search; the next one continues where it stopped."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How a task went under a version of the skill; not there where it was not played."""

    scored: int
    solved: int
    failed: int
    episode: int

    @property
    def share(self) -> float | None:
        """Share of the scored attempts that were solved; ``None`` where all failed."""
        return self.solved / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Tasks by versions.

    Attributes:
        versions: Keys of versions: the document's in order, then others as they were first played.
        tasks: (task id, task type), by type and id.
        cells: By (task id, version).
    """

    versions: tuple[str, ...]
    tasks: tuple[tuple[str, str], ...]
    cells: Mapping[tuple[str, str], Cell]

    def flips(self, a: str, b: str) -> list[tuple[str, str, Cell, Cell]]:
        """List (task, type, cell of A, cell of B) where one of two versions solved half or more."""
        found = []
        for task, task_type in self.tasks:
            first, second = self.cells.get((task, a)), self.cells.get((task, b))
            if first is None or second is None or first.share is None or second.share is None:
                continue
            if is_flipped(first.share, second.share):
                found.append((task, task_type, first, second))
        return sorted(found, key=lambda one: (one[2].share or 0) - (one[3].share or 0))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which episodes a list shows; what is empty is no condition."""

    phase: str = ""
    split: str = ""
    task_type: str = ""
    task: str = ""
    version: str = ""
    outcome: str = ""
    step: int | None = None
    text: str = ""

    def conditions(self, threshold: float) -> tuple[str, list[Any]]:
        """Return an SQL condition on ``episodes e``, and its values."""
        parts, values = ["1"], list[Any]()
        for column, value in (
            ("phase", self.phase),
            ("split", self.split),
            ("task_type", self.task_type),
            ("task_id", self.task),
            ("skill_version", self.version),
            ("step", self.step),
        ):
            if value not in ("", None):
                parts.append(f"e.{column} = ?")
                values.append(value)
        match self.outcome:
            case "solved":
                parts.append("coalesce(e.hard, e.reward) >= ?")
                values.append(threshold)
            case "unsolved":
                parts.append("coalesce(e.hard, e.reward) < ?")
                values.append(threshold)
            case "failed":
                parts.append("e.reward IS NULL")
        return " AND ".join(parts), values


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """A page of a list of episodes, the latest first.

    Attributes:
        rows: What each row shows.
        total: How many fit the filter; ``None`` for a search, which does not know.
        next_before: List on below this number; ``None`` at the end.
        seen: How many episodes the search has read so far.
    """

    rows: list[dict[str, Any]]
    total: int | None
    next_before: int | None
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Faults:
    """What failed, by cause.

    Attributes:
        episodes: (cause, message of one, how many, number of the latest).
        calls: (purpose, error of one, how many).
    """

    episodes: list[tuple[str, str, int, int]] = field(default_factory=list)
    calls: list[tuple[str, str, int]] = field(default_factory=list)


class RunReader:
    """A run's file, open for one request; use `reading`."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        self.store = RunStore(database, Redactor(), time.time)
        self._database = database
        self.threshold = threshold_of(folder) if (folder / CONFIG_NAME).is_file() else 1.0

    def names(self) -> dict[str, str]:
        """Return what versions of the document are called, by hash; of equal texts the first."""
        return {one.hash: f"v{one.version}" for one in reversed(self.store.skills())}

    def values_of(self, column: str) -> list[str]:
        """List the values of a column that episodes may be filtered by."""
        if column not in ("phase", "split", "task_type"):
            raise ValueError(f"episodes are not filtered by {column!r}")
        rows = self._database.rows(f"SELECT DISTINCT {column} AS v FROM episodes ORDER BY v")
        return [row["v"] for row in rows]

    def heat_map(self, phases: Sequence[str]) -> HeatMap:
        """Say how each task went under each version, in some phases."""
        marks = ",".join("?" * len(phases))
        rows = self._database.rows(
            f"""SELECT task_id, max(task_type) AS task_type, skill_version,
                    sum(reward IS NOT NULL) AS scored,
                    coalesce(sum(coalesce(hard, reward) >= ?), 0) AS solved,
                    sum(reward IS NULL) AS failed, max(id) AS latest, min(id) AS first
                FROM episodes WHERE phase IN ({marks})
                GROUP BY task_id, skill_version""",
            (self.threshold, *phases),
        )
        first: dict[str, int] = {}
        tasks: dict[str, str] = {}
        cells = {}
        for row in rows:
            version, task = row["skill_version"], row["task_id"]
            first[version] = min(row["first"], first.get(version, row["first"]))
            tasks[task] = row["task_type"]
            cells[task, version] = Cell(row["scored"], row["solved"], row["failed"], row["latest"])
        ordered = sorted(tasks.items(), key=lambda one: (one[1], one[0]))
        number = {one.hash: one.version for one in reversed(self.store.skills())}
        versions = sorted(first, key=lambda one: (number.get(one, len(number)), first[one]))
        return HeatMap(tuple(versions), tuple(ordered), cells)

    def episodes(self, wanted: Filter, before: int | None = None) -> EpisodePage:
        """List episodes, the latest first, those below a number."""
        if wanted.text:
            return self._search(wanted, before)
        where, values = wanted.conditions(self.threshold)
        total = self._database.rows(f"SELECT count(*) FROM episodes e WHERE {where}", values)[0][0]
        rows = self._rows(where, values, before, PAGE + 1)
        more = len(rows) > PAGE
        return EpisodePage(rows[:PAGE], total, rows[PAGE - 1]["id"] if more else None)

    def _rows(
        self, where: str, values: Sequence[Any], before: int | None, limit: int
    ) -> list[dict[str, Any]]:
        rows = self._database.rows(
            f"""SELECT e.id, e.phase, e.step, e.split, e.task_id, e.task_type, e.draw,
                    e.skill_version, e.reward, e.hard, e.failure_cause, e.stop_reason, e.wall_s,
                    (SELECT count(*) FROM turns t WHERE t.episode = e.id) AS turns
                FROM episodes e WHERE {where} AND e.id < ? ORDER BY e.id DESC LIMIT ?""",
            (*values, 2**62 if before is None else before, limit),
        )
        return [{**dict(row), "solved": self._solved(row), "match": ""} for row in rows]

    def _solved(self, row: sqlite3.Row) -> bool | None:
        score = row["reward"] if row["hard"] is None else row["hard"]
        return None if score is None else bool(score >= self.threshold)

    def _search(self, wanted: Filter, before: int | None) -> EpisodePage:
        """Read episodes for a text until a page is full or the time is up."""
        where, values = wanted.conditions(self.threshold)
        needle, until = wanted.text, time.monotonic() + _SEARCH_S
        found: list[dict[str, Any]] = []
        last, seen = before, 0
        while len(found) < PAGE and time.monotonic() < until:
            batch = self._database.rows(
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

    def neighbors(self, episode: int) -> tuple[int | None, int | None]:
        """Return the numbers of the episodes before and after one."""
        row = self._database.rows(
            "SELECT (SELECT max(id) FROM episodes WHERE id < ?),"
            " (SELECT min(id) FROM episodes WHERE id > ?)",
            (episode, episode),
        )[0]
        return row[0], row[1]

    def version_scores(self) -> dict[str, tuple[int, int]]:
        """Return (solved, scored) of val draws by version."""
        rows = self._database.rows(
            """SELECT skill_version, coalesce(sum(coalesce(hard, reward) >= ?), 0) AS solved,
                    count(reward) AS scored
                FROM episodes WHERE split = 'val' GROUP BY skill_version""",
            (self.threshold,),
        )
        return {row["skill_version"]: (row["solved"], row["scored"]) for row in rows}

    def faults(self) -> Faults:
        """Count what failed, by cause."""
        episodes = self._database.rows(
            """SELECT failure_cause AS cause, failure_message AS message, count(*) AS n,
                    max(id) AS latest
                FROM episodes WHERE reward IS NULL GROUP BY cause, message
                ORDER BY n DESC LIMIT 50"""
        )
        calls = self._database.rows(
            """SELECT purpose, error, count(*) AS n FROM calls WHERE error IS NOT NULL
                GROUP BY purpose, error ORDER BY n DESC LIMIT 50"""
        )
        return Faults(
            [(row["cause"], row["message"] or "", row["n"], row["latest"]) for row in episodes],
            [(row["purpose"], row["error"], row["n"]) for row in calls],
        )

    def funnel(self) -> list[dict[str, Any]]:
        """Count the edits of each step by how far they came, with the step's verdict."""
        rows = self._database.rows(
            """SELECT step, sum(stage = 'proposed') AS proposed, sum(merge_level > 0) AS merged,
                    sum(stage = 'selected') AS selected,
                    sum(stage = 'selected' AND (status LIKE 'applied%' OR status LIKE 'repaired%'))
                        AS applied
                FROM edits GROUP BY step ORDER BY step"""
        )
        verdicts = {one.step: one.body for one in self.store.verdicts() if one.origin == "step"}
        return [{**dict(row), "verdict": verdicts.get(row["step"])} for row in rows]

    def moment(self) -> str:
        """Return what changes whenever something is recorded."""
        row = self._database.rows(
            "SELECT (SELECT max(id) FROM events), (SELECT max(id) FROM episodes),"
            " (SELECT max(id) FROM calls)"
        )[0]
        return "-".join(str(part or 0) for part in row)

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        """Return what the events of a kind say, in order."""
        return [event.payload for event in self.store.events(kind)]


@contextmanager
def reading(folder: Path) -> Iterator[RunReader]:
    """Open a run's file for one request; it may be written meanwhile.

    Raises:
        RunError: The file is missing, no run, damaged, or written by a newer version.
    """
    database = Database(folder / STORE_NAME, read_only=True)
    try:
        yield RunReader(folder, database)
    finally:
        database.close()


def _match(row: sqlite3.Row, needle: str) -> str:
    """Return the place where an episode holds a text, or ``""``."""
    # What is stored is JSON text: a quote or line break in it is written with a backslash.
    needles = tuple(dict.fromkeys((needle, json.dumps(needle, ensure_ascii=False)[1:-1])))
    plain = zlib.compress(row["task_description"].encode("utf-8", "surrogatepass"), 0)
    for body in (plain, row["opening"], row["said"]):
        if found := find_in(body, needles, _AROUND):
            return " ".join(found.replace("\\n", " ").split())
    return ""


# What pages share: where runs are, their summaries, and how a template is filled.


T = TypeVar("T")

NONE = "\N{EN DASH}"
"""What stands for a number that is not known."""


@dataclass(slots=True)
class Site:
    """The runs that are shown.

    Args:
        root: The folder that holds runs.
        folders: Runs that are shown beside those, by folder.
        clock: Tells the time, in seconds since 1970.
    """

    root: Path
    folders: tuple[Path, ...]
    clock: Callable[[], float]
    _held: dict[tuple[Path, str], tuple[object, Any]] = field(default_factory=dict)

    def runs(self) -> dict[str, Path]:
        """Return the folders of runs by the name they have in addresses."""
        found = {folder.path.resolve(): folder.path for folder in list_runs(self.root)}
        for path in self.folders:
            found.setdefault(path.resolve(), path)
        names: dict[str, Path] = {}
        for path in found.values():
            name, number = path.resolve().name, 2
            while name in names:
                name, number = f"{path.resolve().name}~{number}", number + 1
            names[name] = path
        return names

    def folder(self, name: str) -> Path:
        """Return a run's folder.

        Raises:
            RunError: There is no such run; the message names the nearest.
        """
        known = self.runs()
        if name not in known:
            raise RunError(f"there is no run {name!r} here. {did_you_mean(name, known)}")
        return known[name]

    def summary(self, path: Path) -> RunSummary:
        """Summarize a run; it is read again only after its files changed."""
        return self.once(path, "summary", lambda: _read(path))

    def once(self, path: Path, what: str, make: Callable[[], T]) -> T:
        """Return what was made of a run's files before, or make it anew after they changed."""
        store = path / STORE_NAME
        files = (store, log_of(store))
        state = tuple((f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists())
        held = self._held.get((path, what))
        if held is None or held[0] != state:
            held = self._held[path, what] = (state, make())
        made: T = held[1]
        return made

    def summaries(self) -> list[tuple[str, RunSummary]]:
        """Summarize all runs, the latest first."""
        found = [(name, self.summary(path)) for name, path in self.runs().items()]
        return sorted(found, key=lambda one: one[1].started, reverse=True)


def _read(path: Path) -> RunSummary:
    try:
        return read_folder(RunFolder.look(path))
    except SkillwrightError as error:
        return RunSummary(path.name, path, "", "", 0, 0, {}, problem=str(error))


def templates() -> Environment:
    """Return the templates; whatever is filled in is escaped."""
    found = Environment(
        loader=PackageLoader("skillwright.dashboard", "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        percent=percent, signed=signed, when=when, seconds=seconds, money=money, plain=plain
    )
    return found


def percent(share: float | None) -> str:
    """Write a share; a dash for none."""
    return NONE if share is None else f"{share:.0%}"


def signed(value: float | None) -> str:
    """Write a difference with its sign; a dash for none."""
    return NONE if value is None else f"{value:+.3f}"


def when(time: float | None) -> str:
    """Write a time of day, UTC."""
    if time is None:
        return NONE
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds(time: float | None) -> str:
    """Write a duration."""
    if time is None:
        return NONE
    minutes, rest = divmod(round(time), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{time:.1f} s"


def money(usage: Usage) -> str:
    """Write what was spent; a dash where it is unknown."""
    return NONE if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def plain(text: Any) -> str:
    """Write an identifier in words."""
    return str(text).replace("_", " ")

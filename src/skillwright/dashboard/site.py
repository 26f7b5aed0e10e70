"""Shared by all pages: runs, banks, summaries, templates."""

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from skillwright.bank.store.tables import APPLICATION_ID as BANK_FILE_ID
from skillwright.core import RunError, SkillwrightError, did_you_mean
from skillwright.core.fence import without_controls
from skillwright.core.sqlite_file import log_of
from skillwright.dashboard.reading import plain
from skillwright.evaluation import RELEASE_PHASE, gain_text, points, points_range
from skillwright.jobs.inspect import RunSummary, read_folder
from skillwright.jobs.run import KEPT_BANK
from skillwright.runs import RunFolder, list_runs
from skillwright.runs.folder import STORE_NAME

T = TypeVar("T")

NONE = "\N{EN DASH}"
"""Shown for an unknown number."""
RUN_BANK = "bank/bank.sqlite"
"""Path of an evolving run's bank."""
DAMAGE = (zlib.error, ValueError, TypeError, LookupError)
"""Errors that reading a damaged row may raise."""
_HELD = 64
"""Maximum number of cached results."""


@dataclass(slots=True)
class Site:
    """The runs and banks that are shown.

    Args:
        root: The folder that holds runs; banks in it and next to it are shown too.
        paths: Further folders of runs and files of banks.
        clock: Tells the time, in seconds since 1970.
    """

    root: Path
    paths: tuple[Path, ...]
    clock: Callable[[], float]
    _held: dict[tuple[Path, str], tuple[object, Any]] = field(default_factory=dict)

    def runs(self) -> dict[str, Path]:
        """Return folders of runs by their name in URLs."""
        found = [folder.path for folder in list_runs(self.root)]
        return _named([*found, *(one for one in self.paths if _is_run(one))])

    def banks(self) -> dict[str, Path]:
        """Return files of banks outside of runs by their name in URLs."""
        folders = (self.root, self.root.absolute().parent)
        found = [path for one in folders if one.is_dir() for path in sorted(one.glob("*.sqlite"))]
        return _named(path for path in (*found, *self.paths) if is_bank(path))

    def folder(self, name: str) -> Path:
        """Return a run's folder.

        Raises:
            RunError: No such run; the message names the nearest.
        """
        return _find(self.runs(), name, "run")

    def bank(self, name: str) -> Path:
        """Return a bank's file.

        Raises:
            RunError: No such bank; the message names the nearest.
        """
        return _find(self.banks(), name, "bank")

    def bank_of(self, run: str) -> Path | None:
        """Return the file of a run's bank or of its initial copy, or ``None``."""
        folder = self.runs().get(run)
        places = (folder / name for name in (RUN_BANK, KEPT_BANK)) if folder is not None else ()
        return next((path for path in places if path.is_file()), None)

    def summary(self, path: Path) -> RunSummary:
        """Summarize a run; cached until its files change."""
        return self.once(path / STORE_NAME, "summary", lambda: _read(path))

    def once(self, file: Path, what: str, make: Callable[[], T]) -> T:
        """Return a value computed from a file, cached until the file changes."""
        state = tuple(
            (one.stat().st_mtime_ns, one.stat().st_size)
            for one in (file, log_of(file))
            if one.exists()
        )
        held = self._held.pop((file, what), None)
        if held is None or held[0] != state:
            held = (state, make())
        self._held[file, what] = held
        while len(self._held) > _HELD:
            self._held.pop(next(iter(self._held)), None)
        made: T = held[1]
        return made

    def summaries(self) -> list[tuple[str, RunSummary]]:
        """Summarize all runs, the latest first."""
        found = [(name, self.summary(path)) for name, path in self.runs().items()]
        return sorted(found, key=lambda one: one[1].started, reverse=True)


def damaged(error: Exception) -> str:
    """Return a message about a damaged store."""
    return (
        f"something stored here cannot be read ({type(error).__name__}: {error}). The file is "
        "damaged; restore it from a copy"
    )


def is_bank(path: Path) -> bool:
    """Tell whether a file is a bank of ours; only its first bytes are read."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError:
        return False
    # Source of the layout: section 1.3 of https://www.sqlite.org/fileformat2.html
    return head[:15] == b"SQLite format 3" and int.from_bytes(head[68:72]) == BANK_FILE_ID


def _is_run(path: Path) -> bool:
    return (path / STORE_NAME).is_file()


def _named(paths: Iterable[Path]) -> dict[str, Path]:
    names: dict[str, Path] = {}
    for place, path in {one.resolve(): one for one in paths}.items():
        name, number = place.name, 2
        while name in names:
            name, number = f"{place.name}~{number}", number + 1
        names[name] = path
    return names


def _find(known: dict[str, Path], name: str, what: str) -> Path:
    if name not in known:
        raise RunError(f"there is no {what} {name!r} here. {did_you_mean(name, known)}")
    return known[name]


def _read(path: Path) -> RunSummary:
    try:
        return read_folder(RunFolder.look(path))
    except (SkillwrightError, *DAMAGE) as error:
        problem = str(error) if isinstance(error, SkillwrightError) else damaged(error)
        return RunSummary.unreadable(path, problem)


def templates() -> Environment:
    """Return the templates, which escape values and strip control characters."""
    found = Environment(
        loader=PackageLoader("skillwright.dashboard", "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: without_controls(value) if type(value) is str else value,
    )
    found.filters.update(
        percent=percent,
        gain=gain,
        points=lambda value: NONE if value is None else points(value),
        points_range=lambda interval: points_range(interval) if interval else NONE,
        when=when,
        seconds=seconds,
        money=money,
        plain=plain,
        decided=decided,
        number=number,
        marked=marked,
        age=age,
    )
    return found


def decided(decision: str, origin: str = "") -> str:
    """Return the word for a gate's decision, or for that of a release test."""
    if origin == RELEASE_PHASE:
        return {"accept": "proven", "reject": "not proven"}.get(decision, decision)
    return {"accept": "kept", "reject": "dropped"}.get(decision, decision)


def percent(share: float | None) -> str:
    """Write a share; a dash for none."""
    return NONE if share is None else f"{share:.0%}"


def gain(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """Write a gain in points with its interval; a dash for none."""
    return NONE if value is None else gain_text(value, interval)


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


def money(usd: float | None) -> str:
    """Write an amount of money; a dash if it is unknown."""
    return NONE if usd is None else f"${usd:.4f}"


def number(value: float | None) -> str:
    """Write a number in three digits; a dash for none."""
    return NONE if value is None else f"{value:.3g}"


def age(seconds_ago: float | None) -> str:
    """Write an age in its largest unit."""
    if seconds_ago is None:
        return NONE
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds_ago >= size:
            return f"{int(seconds_ago // size)} {unit}"
    return "now"


def marked(text: str, needle: str) -> Markup:
    """Mark the occurrences of ``needle`` in a text."""
    clean = without_controls(text)
    if not needle:
        return escape(clean)
    parts = re.split(f"({re.escape(needle)})", clean, flags=re.IGNORECASE)
    found = (
        Markup("<mark>{}</mark>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(found)

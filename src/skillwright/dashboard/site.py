"""What pages share: where runs are, their summaries, and how a template is filled."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from skillwright.core import RunError, SkillwrightError, Usage, did_you_mean
from skillwright.core.sqlite_file import log_of
from skillwright.jobs.inspect.summary import RunSummary, read_folder
from skillwright.runs import RunFolder, list_runs
from skillwright.runs.folder import STORE_NAME

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

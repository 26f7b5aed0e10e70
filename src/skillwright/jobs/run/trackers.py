"""The interface of experiment trackers, and finding them by name.

A package adds a tracker by an entry point of ``skillwright.trackers`` that names its class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from skillwright.config.run import TRACKERS
from skillwright.core import ConfigError
from skillwright.entry_points import entry_point
from skillwright.jobs.run.spans import Span

Status = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Facts about a run for a tracker.

    Attributes:
        name: The run's name.
        id: Unique id, equal in all sessions of the run.
        folder: The run's folder.
        config: Its configuration, without secrets.
    """

    name: str
    id: str
    folder: Path
    config: Mapping[str, Any]


class Tracker(Protocol):
    """Receives the numbers of a run. All methods are called from one thread; they may raise.

    Attributes:
        takes_spans: Whether it uses `spans`.
        needs: The modules that it imports when it starts, each with the package to install.
    """

    takes_spans: ClassVar[bool]
    needs: ClassVar[Mapping[str, str]]

    def start(self, run: TrackedRun) -> None:
        """Start tracking, or resume that of an earlier session."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log finite numbers of a step."""

    def text(self, step: int, name: str, text: str) -> None:
        """Log a text with a file's name: ``skill.md``, ``verdict.txt``, ``report.html``."""

    def spans(self, spans: Sequence[Span]) -> None:
        """Log the spans of an episode with its turns, or of a call."""

    def finish(self, status: Status) -> None:
        """Send the remaining data, and end."""


def make_tracker(name: str) -> Tracker:
    """Make a tracker by its name; it is not started."""
    return _class(name)()


def refuse_missing_trackers(names: Sequence[str]) -> None:
    """Refuse trackers whose libraries are not installed; no library is imported.

    Raises:
        ConfigError: A library is missing; the message has the command that installs it.
    """
    for name in names:
        needs = _class(name).needs
        if missing := [module for module in needs if not _is_installed(module)]:
            raise ConfigError(
                f"run.trackers names {name!r}, which needs {missing[0].split('.')[0]!r}, and that "
                f"is not installed here. Run:  pip install {' '.join(needs.values())}; or leave "
                "it out"
            )


def _class(name: str) -> type[Tracker]:
    found: type[Tracker] = entry_point(TRACKERS, name, "tracker").load()
    return found


def _is_installed(module: str) -> bool:
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # the package around it
        return False
    # A folder of the same name, such as the one that wandb leaves where it ran, is no library.
    return found is not None and found.origin is not None

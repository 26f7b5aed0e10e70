"""What a person sees of a bug in somebody's adapter: one line each time, its traceback once."""

import asyncio
import concurrent.futures
import logging
import threading
import traceback
from pathlib import Path
from types import TracebackType

import skillwright
from skillwright.core import SkillwrightError

_OURS = str(Path(skillwright.__file__).parent)
_BETWEEN = (
    _OURS,
    str(Path(asyncio.__file__).parent),
    str(Path(concurrent.futures.__file__).parent),
    threading.__file__,
)
"""Whose frames lie between a run and the adapter's first line."""

Bug = tuple[str, str, int | None]


class FaultLog:
    """Logs the faults of foreign code; an equal one does not show its traceback again.

    Faults are equal where they are of one kind and come from one line.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._seen: set[Bug] = set()
        self._said: set[tuple[str, Bug]] = set()

    def warn(self, said: str, fault: BaseException, *, once: bool = False) -> None:
        """Log a fault in one line, and the first of its kind with the adapter's own frames."""
        theirs, bug = _their_frames(fault), _bug(fault)
        if once and (said, bug) in self._said:
            return
        shows = bug not in self._seen and _is_worth_showing(fault, theirs)
        self._seen.add(bug)
        self._said.add((said, bug))
        why = f"{type(fault).__name__}: {fault}"
        self._log.warning(
            "%s: %s",
            said,
            why,
            exc_info=(type(fault), fault, theirs or fault.__traceback__) if shows else None,
        )


def _bug(fault: BaseException) -> Bug:
    frames = traceback.extract_tb(fault.__traceback__)
    where = (frames[-1].filename, frames[-1].lineno) if frames else ("", 0)
    return type(fault).__name__, *where


def _their_frames(fault: BaseException) -> TracebackType | None:
    """Return a traceback from the adapter's first frame on; ``None`` where it has none."""
    frames = fault.__traceback__
    while frames and frames.tb_frame.f_code.co_filename.startswith(_BETWEEN):
        frames = frames.tb_next
    return frames


def _is_worth_showing(fault: BaseException, theirs: TracebackType | None) -> bool:
    """Our own refusals of what an adapter returned say all there is in a sentence."""
    return theirs is not None or not isinstance(fault, SkillwrightError)

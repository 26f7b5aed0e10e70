"""Show long waits on standard error.

On a terminal one temporary line per wait; elsewhere a line now and then.
"""

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.text import Text

from skillwright.cli.words import clock_text, print_words
from skillwright.core.waits import Wait, waits

_FIRST_S = 1.5
"""Seconds before a wait is reported."""
_SAID_AT_S = (_FIRST_S, 10.0, 30.0)
_EVERY_S = 60.0
_LOOK_S = 0.25

_watches: "list[Watch]" = []


def lasting(now_s: float) -> list[Wait]:
    """Return the waits that are long enough to be shown."""
    return [one for one in waits() if now_s - one.since_s >= _FIRST_S]


def wait_text(one: Wait, now_s: float) -> str:
    """Format a wait with its duration and the next step."""
    then = f"; then {one.then}" if one.then else ""
    share = "" if one.share is None else f"{one.share:.0%} in "
    return f"{one.what}: {share}{clock_text(now_s - one.since_s)} so far{then}"


class Watch:
    """Shows waits from its own thread, because the main one may be busy."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._over = threading.Event()
        self._at_it = threading.Lock()
        self._live: object | None = None
        self._is_paused = False
        self._said: dict[Wait, int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and restore the terminal."""
        self._over.set()
        self._thread.join()
        self.pause()

    def pause(self) -> None:
        """Release the terminal for another display."""
        with self._at_it:
            self._is_paused = True
            self._take_away()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Show the current long waits."""
        with self._at_it:
            found = lasting(self._clock())
            if not self._console.is_terminal:
                self._say(found)
            elif self._is_paused or not found:
                self._take_away()
            elif self._live is None:
                self._live = self._start_display()

    def _start_display(self) -> object:
        # Imported only for a long wait, so that quick commands start fast.
        from rich.live import Live

        live = Live(get_renderable=self._draw, console=self._console, transient=True)
        live.start(refresh=True)
        return live

    def _take_away(self) -> None:
        live, self._live = self._live, None
        stop = getattr(live, "stop", None)
        if stop is not None:
            stop()

    def _draw(self) -> RenderableType:
        return drawn(self._clock())

    def _say(self, found: list[Wait]) -> None:
        """Print a line for each wait that is due."""
        now_s = self._clock()
        for one in found:
            lasted_s = now_s - one.since_s
            due = sum(lasted_s >= mark for mark in _SAID_AT_S) + int(lasted_s // _EVERY_S)
            if due > self._said.get(one, 0):
                self._said[one] = due
                print_words(self._console, wait_text(one, now_s))


def drawn(now_s: float) -> RenderableType:
    """Return a line per long wait."""
    return Group(*(Text(wait_text(one, now_s), style="dim") for one in lasting(now_s)))


@contextmanager
def waits_shown(console: Console) -> Iterator[None]:
    """Show waits, unless a display is active or no output is read."""
    if _watches or not _is_read(console):
        yield
        return
    _watches.append(Watch(console))
    try:
        yield
    finally:
        _watches.pop().close()


def hand_over() -> None:
    """Release the terminal for the display of a run, which shows waits itself."""
    for one in _watches:
        one.pause()


def _is_read(console: Console) -> bool:
    """Tell whether a console writes to a terminal or file, not to memory."""
    try:
        return console.file.fileno() >= 0
    except (io.UnsupportedOperation, AttributeError, ValueError):
        return False

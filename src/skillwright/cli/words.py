"""How every command prints: in the same words, and nothing that a terminal would obey."""

import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO, NoReturn, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from skillwright.cli.streams import OwnOutput
from skillwright.core.fence import without_controls

# Words that every command writes in the same way, and none that a terminal would obey.


_READER_GONE = 141
"""128 and the number of SIGPIPE, as a shell has it."""


class PlainConsole(Console):
    """A console that shows control characters of others to nobody; its own styles stay."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render something; everything that is printed comes through here."""
        for segment in super().render(renderable, options):
            # What the console itself says to the terminal is marked as such.
            yield (
                segment
                if segment.control
                else segment._replace(text=without_controls(segment.text))
            )

    def on_broken_pipe(self) -> None:
        """End quietly where nobody reads on."""
        leave_quietly()


def leave_quietly() -> NoReturn:
    """End the program whose reader has gone, such as ``head``; it has what it wanted."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(_READER_GONE)


class PlainFormatter(logging.Formatter):
    """Formats warnings that quote others."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, traceback included."""
        return without_controls(super().format(record))


def is_worth_saying(record: logging.LogRecord) -> bool:
    """Tell whether a warning is news: a tracker's thread says once what its library repeats."""
    in_tracker = (record.threadName or "").startswith("tracker ")
    return not in_tracker or record.name.startswith("skillwright")


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints words as they are: ``ids.py:A: 16`` holds no emoji."""
    if stderr:
        return PlainConsole(stderr=True, emoji=False, highlight=False)
    return PlainConsole(file=cast("IO[str]", OwnOutput()), emoji=False, highlight=False)


def counted(count: int, thing: str) -> str:
    """Write how many there are: ``1 failure``, ``2,000 failures``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def short_count(count: int) -> str:
    """Write a number in few columns, and nothing for none: ``950``, ``28.9k``, ``1.2M``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count or "")


def print_words(console: Console, text: str | Text, style: str = "") -> None:
    """Print a text so that it can be copied: a terminal breaks it between words, never inside.

    Elsewhere it is one line. A word that is longer than a line, such as a URL, stays whole.
    """
    console.print(
        text,
        style=style,
        markup=False,
        soft_wrap=not console.is_terminal,
        overflow="ignore",
        crop=False,
    )


# Long texts on a terminal go through its pager; elsewhere they are printed.


# Leave at once where one screen is enough, show colors, and leave the text on the screen.
_LESS = "FRX"


def show_paged(console: Console, show: Callable[[], None]) -> None:
    """Show something through the pager of the environment, where a person reads it."""
    command = _pager() if console.is_terminal else []
    if not command:
        show()
        return
    with console.capture() as captured:
        show()
    environment = {"LESS": _LESS, **os.environ}
    try:
        # Its output is the console's, for what this process calls standard output may be another.
        pager = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=console.file.fileno(), env=environment
        )
    except OSError:  # a pager that cannot be started keeps nobody from reading
        show()
        return
    _feed(pager, captured.get().encode("utf-8", "backslashreplace"))


def _pager() -> list[str]:
    """Return the pager's command, or none where there is no pager or none is wanted."""
    wanted = shlex.split(os.environ.get("PAGER", "less"))
    if not wanted or wanted[0] == "cat" or shutil.which(wanted[0]) is None:
        return []
    return wanted


def _feed(pager: "subprocess.Popen[bytes]", text: bytes) -> None:
    while True:
        # Ctrl-C is the pager's business: it stops a search there, and ends nothing.
        with suppress(KeyboardInterrupt):
            with suppress(BrokenPipeError):  # left before the end
                pager.communicate(text)
            return

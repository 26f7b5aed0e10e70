"""Printing for all commands, without terminal control sequences."""

import copy
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, Literal, NoReturn, cast

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from skillwright.cli.streams import OwnOutput
from skillwright.core.fence import without_controls

_READER_GONE = 141
"""128 plus the number of SIGPIPE, as in shells."""


class PlainConsole(Console):
    """A console that strips control characters from untrusted text; its own styles stay."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render any output."""
        if isinstance(renderable, Table):
            renderable = fitted(self, renderable, options or self.options)
        for segment in super().render(renderable, options):
            # The console's own control sequences are marked.
            yield (
                segment
                if segment.control
                else segment._replace(text=without_controls(segment.text))
            )

    def on_broken_pipe(self) -> None:
        """Exit quietly."""
        leave_quietly()


def leave_quietly() -> NoReturn:
    """Exit after the reader of the output, such as ``head``, has closed it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(_READER_GONE)


class PlainFormatter(logging.Formatter):
    """Formats warnings without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, traceback included."""
        return without_controls(super().format(record))


def is_worth_saying(record: logging.LogRecord) -> bool:
    """Tell whether a warning is new; trackers' libraries repeat theirs."""
    in_tracker = (record.threadName or "").startswith("tracker ")
    return not in_tracker or record.name.startswith("skillwright")


def make_console(*, stderr: bool = False) -> Console:
    """Return a console without markup for emoji, so that ``ids.py:A: 16`` stays unchanged."""
    if stderr:
        return PlainConsole(stderr=True, emoji=False, highlight=False)
    return PlainConsole(file=cast("IO[str]", OwnOutput()), emoji=False, highlight=False)


def counted(count: int, thing: str) -> str:
    """Format a count: ``1 failure``, ``2,000 failures``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def clock_text(seconds: float) -> str:
    """Format a duration as minutes and seconds, and hours if any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def short_count(count: int) -> str:
    """Format a number briefly (``950``, ``28.9k``, ``1.2M``), 0 as ""."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count or "")


def print_words(
    console: Console, text: str | Text, style: str = "", *, markup: bool = False
) -> None:
    """Print a text so that it can be copied: wrap it between words on a terminal only.

    Broken lines keep their indent. Elsewhere each line stays whole, as do long words such as URLs.
    """
    if isinstance(text, str):
        text = Text.from_markup(text, emoji=False) if markup else Text(text)
    shown = _hanging(text, console.width) if console.is_terminal else text
    console.print(shown, style=style, soft_wrap=True)


_COMMAND = ":  "
_WORD = re.compile(r"\s*\S+")
_LEAST_ROOM = 20  # minimum columns of an indented text


def _hanging(text: Text, width: int) -> Text:
    """Break the lines of a text between words, keeping their indent.

    A command, after a colon and two blanks, gets its own line if it does not fit.
    """
    lines = []
    for line in text.split("\n", allow_blank=True):
        margin = len(line.plain) - len(line.plain.lstrip())
        before, is_there, _ = line.plain.partition(_COMMAND)
        if is_there and line.cell_len > width:
            line, command = line.divide([len(before) + len(_COMMAND)])
            lines.append(_hanging(line, width))
            lines.append(Text(" " * (margin + 2)) + command)
            continue
        parts = line[margin:].divide(_breaks(line.plain[margin:], max(width - margin, _LEAST_ROOM)))
        for part in parts:
            # Drop the blanks at a line break.
            start = len(part.plain) - len(part.plain.lstrip())
            part = part[start:]
            part.rstrip()
            lines.append(Text(" " * margin) + part if part else Text())
    return Text("\n").join(lines)


def _breaks(text: str, room: int) -> list[int]:
    """Return the positions at which to break a line."""
    found, used = [], 0
    for word in _WORD.finditer(text):
        if used and used + cell_len(word[0]) > room:
            found.append(word.start())
            used = cell_len(word[0].lstrip())
        else:
            used += cell_len(word[0])
    return found


def make_table(
    *names: str, right: Sequence[str] = (), whole: Sequence[str] = (), title: str = ""
) -> Table:
    """Return an empty table.

    Args:
        names: Its columns.
        right: Columns with numbers, which are aligned right.
        whole: Columns whose cells stay on one line.
        title: A line above it.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title=title or None)
    table.title_justify = table.caption_justify = "left"
    table.title_style = "bold"
    for name in names:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in whole)
    return table


_ENDLESS = 10_000
_OF_IDS = Column(overflow="fold").overflow
_LEAST_ID = 16  # columns of an id, before rows are written as lines


def filled(parts: Sequence[str], width: int) -> list[str]:
    """Pack parts into lines of at most ``width`` columns; a longer part gets its own line."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}  {part}" if lines[-1] else part
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def fitted(console: Console, table: Table, options: ConsoleOptions) -> RenderableType:
    """Return a table that cuts no word, or its rows as lines if it is too wide."""
    if not table.show_header and table.box is None:  # a grid
        return table
    endless = options.update(max_width=_ENDLESS)
    bare = _without_borders(table)
    for found, may_break in ((table, False), (bare, False), (bare, True)):
        sizes = [_column_size(console, column, endless, may_break) for column in table.columns]
        whole = Measurement.get(console, endless, found).maximum
        room = options.max_width - max(whole - sum(most for _, most in sizes), 0)
        if sum(most for _, most in sizes) <= room:
            return found
        if sum(least for least, _ in sizes) <= room:
            found = copy.copy(found)
            found.columns = [copy.copy(column) for column in found.columns]
            for column, width in zip(found.columns, _shared(sizes, room), strict=True):
                column.width, column.ratio = width, None
            return found
    return _as_lines(console, table, options.max_width)


def _without_borders(table: Table) -> Table:
    found = copy.copy(table)
    found.box = None if table.box is None else SIMPLE_HEAD
    found.padding, found.pad_edge = (0, 1, 0, 0), False
    return found


def _column_size(
    console: Console, column: Column, options: ConsoleOptions, may_break: bool
) -> tuple[int, int]:
    """Return the widths of a column's longest word and longest line."""
    found = [
        Measurement.get(console, options, cell) for cell in (column.header, *column.cells) if cell
    ]
    most = max((one.maximum for one in found), default=0)
    least = most if column.no_wrap else max((one.minimum for one in found), default=0)
    return (min(least, _LEAST_ID) if may_break and column.overflow == _OF_IDS else least), most


def _shared(sizes: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Give each column the width of its words, and the rest to the narrowest."""
    widths = [least for least, _ in sizes]
    left = room - sum(widths)
    while left > 0:
        wanting = [n for n, (_, most) in enumerate(sizes) if widths[n] < most]
        if not wanting:
            break
        widths[min(wanting, key=lambda n: widths[n])] += 1
        left -= 1
    return widths


def _as_lines(console: Console, table: Table, width: int) -> RenderableType:
    """Write each row as lines of column name and value, below its first cell."""
    first, *others = table.columns
    lines: list[Text] = []
    if table.title:
        lines.append(_hanging(_plain(console, table.title), width))
        lines[-1].stylize("bold")
    for number, cell in enumerate(first.cells):
        name = _plain(console, first.header) + " " if first.justify == "right" else Text()
        lines.append(_hanging(name + _plain(console, cell), width))
        lines[-1].stylize("bold")
        cells = [
            (_plain(console, column.header).plain, _plain(console, list(column.cells)[number]))
            for column in others
        ]
        facts = [" ".join(f"{name} {held.plain}".split()) for name, held in cells if held.plain]
        lines += [_hanging(Text(f"  {line}"), width) for line in filled(facts, width - 2)]
    if table.caption:
        lines.append(_hanging(_plain(console, table.caption), width))
        lines[-1].stylize("dim")
    return Group(*lines)


def _plain(console: Console, cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else console.render_str(str(cell), emoji=False)


# Leave at once where one screen is enough, show colors, and leave the text on the screen.
_LESS = "FRX"


def show_paged(console: Console, show: Callable[[], None]) -> None:
    """Show output through the pager, on a terminal."""
    command = _pager() if console.is_terminal else []
    if not command:
        show()
        return
    with console.capture() as captured:
        show()
    environment = {"LESS": _LESS, **os.environ}
    try:
        # The pager writes to the console's file, which may differ from standard output.
        pager = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=console.file.fileno(), env=environment
        )
    except OSError:  # without a pager the text is printed
        show()
        return
    _feed(pager, captured.get().encode("utf-8", "backslashreplace"))


def _pager() -> list[str]:
    """Return the pager's command, or an empty list without a pager."""
    wanted = shlex.split(os.environ.get("PAGER", "less"))
    if not wanted or wanted[0] == "cat" or shutil.which(wanted[0]) is None:
        return []
    return wanted


def _feed(pager: "subprocess.Popen[bytes]", text: bytes) -> None:
    while True:
        # Ctrl-C is left to the pager, where it stops a search.
        with suppress(KeyboardInterrupt):
            with suppress(BrokenPipeError):  # left before the end
                pager.communicate(text)
            return

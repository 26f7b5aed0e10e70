"""Words that every command writes in the same way."""

from rich.console import Console
from rich.text import Text


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints words as they are: ``ids.py:A: 16`` holds no emoji.

    Args:
        stderr: Write to standard error instead of standard output.
    """
    return Console(stderr=stderr, emoji=False)


def counted(count: int, thing: str) -> str:
    """Write how many there are: ``1 failure``, ``2,000 failures``."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def print_words(console: Console, text: str | Text, style: str = "") -> None:
    """Print a text so that it can be copied: a terminal breaks it between words, never inside.

    Elsewhere it is one line. A word that is longer than a line, such as a URL, stays whole.
    """
    console.print(
        text,
        style=style,
        markup=False,
        highlight=False,
        soft_wrap=not console.is_terminal,
        overflow="ignore",
        crop=False,
    )

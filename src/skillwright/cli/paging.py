"""Long texts on a terminal go through its pager; elsewhere they are printed."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

from rich.console import Console

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

"""How a command ends: 0 done, 1 the answer is no, 2 you asked wrongly, 130 you stopped it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from skillwright.core import SkillwrightError

DONE, NO, ASKED_WRONGLY, INTERRUPTED = 0, 1, 2, 130
_FULL = {errno.ENOSPC, errno.EDQUOT}

err = Console(stderr=True)


@contextmanager
def exit_codes(go_on: str = "") -> Iterator[None]:
    """Turn what was raised on purpose into one message and an exit code.

    Args:
        go_on: The command with which a run goes on, or "" where there is none to go on with.
    """
    try:
        yield
    except KeyboardInterrupt:
        say("Stopped.")
        code = INTERRUPTED
    except SkillwrightError as error:
        say(f"error: {error}", style="red")
        code = error.exit_code
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise
        move = "Make room." if error.errno in _FULL else "Check the path and its permissions."
        say(f"error: {error.filename or 'a file'}: {error.strerror}. {move}", style="red")
        code = ASKED_WRONGLY
    else:
        return
    if go_on:
        say(f"Everything that finished is saved; go on with:  {go_on}")
    raise typer.Exit(code)


def say(text: str, style: str = "") -> None:
    """Print to standard error, where a script's output is not disturbed."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

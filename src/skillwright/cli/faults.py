"""The exit codes of commands.

0: done. 1: a check failed. 2: wrong usage. 3: the budget is spent. 130: stopped by SIGINT. 143:
stopped by SIGTERM.
"""

import errno
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from skillwright.cli.json_log import wants_json_log, write_line
from skillwright.cli.streams import ending_in_time, others_to_stderr, stop_code
from skillwright.cli.waits import waits_shown
from skillwright.cli.words import make_console, print_words
from skillwright.core.errors import BudgetSpent, NotMeasured, SkillwrightError

DONE, NO, ASKED_WRONGLY = 0, 1, 2
_FULL = {errno.ENOSPC, errno.EDQUOT}

err = make_console(stderr=True)


@contextmanager
def exit_codes(resume: str | Callable[[], str] = "") -> Iterator[None]:
    """Turn our own errors into one message and an exit code.

    Inside the block, standard output is redirected to standard error, so that libraries do not
    disturb it: print results after the block, or on a console.
    """
    larger = ""

    def ended() -> None:
        say("Stopped before everything had ended.")
        _say_how_to_continue(resume)

    try:
        with ending_in_time(ended), others_to_stderr(), waits_shown(err):
            yield
    except KeyboardInterrupt:
        say("Stopped.")
        code = stop_code()
    except BudgetSpent as spent:
        say(str(spent))
        code = spent.exit_code
        larger = f" {spent.larger}".rstrip()
    except SkillwrightError as error:
        say(f"error: {error}", style="red")
        code = error.exit_code
        resume = "" if isinstance(error, NotMeasured) else resume
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise
        move = "Make room." if error.errno in _FULL else "Check the path and its permissions."
        say(f"error: {error.filename or 'a file'}: {error.strerror}. {move}", style="red")
        code = ASKED_WRONGLY
    else:
        return
    _say_how_to_continue(resume, larger)
    raise typer.Exit(code)


def _say_how_to_continue(resume: str | Callable[[], str], larger: str = "") -> None:
    if command := resume() if callable(resume) else resume:
        say(f"Everything that finished is saved; continue with:  {command}{larger}")


def say(text: str, style: str = "") -> None:
    """Print to standard error."""
    if wants_json_log():
        write_line("message", {"text": text})
    else:
        print_words(err, text, style)


def say_finished(run: Path) -> None:
    """Say that nothing of a run is left to play, and how to read it."""
    report = shlex.join(["skillwright", "report", str(run)])
    say(f"{run.name} is finished: nothing is left to play. Its report:  {report}")

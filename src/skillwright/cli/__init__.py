"""The command line: parse, call one job, show, choose an exit code."""

import sys

from skillwright.cli.command import Command
from skillwright.cli.streams import listen, stop_code

__all__ = ["Command", "main"]


def main() -> None:
    """Run the command line."""
    try:
        listen()
        # Imported here, because it takes most of a second, and whoever stops the program meanwhile
        # needs no traceback of an import.
        from skillwright.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(stop_code())

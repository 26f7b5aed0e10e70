"""The command line: parse, call one job, show, choose an exit code."""

import sys

from skillwright.cli.streams import listen, stop_code

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        listen()
        # Imported here, because it takes most of a second: Ctrl-C meanwhile should not print a
        # traceback of an import.
        from skillwright.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.exit(stop_code())

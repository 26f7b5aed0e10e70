"""The command line: parse, call one job, show, choose an exit code."""

from skillwright.cli.app import main

__all__ = ["main"]

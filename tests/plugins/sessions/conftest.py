"""Fixtures for the commands of the sessions."""

from command_line import cli

__all__ = ["cli"]

"""Fixtures for the commands that plug-ins add."""

from command_line import cli, refused, write_config

__all__ = ["cli", "refused", "write_config"]

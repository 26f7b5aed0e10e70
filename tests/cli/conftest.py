"""Fixtures for the command line."""

from command_line import cli, refused, write_config

__all__ = ["cli", "refused", "write_config"]

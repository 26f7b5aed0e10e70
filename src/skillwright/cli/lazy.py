"""Commands that are imported when they are run, so that help and completion need no wait."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group


class LazyCommand(TyperCommand):
    """A command or a group, of which only name and first line are known before it is run."""

    def __init__(self, name: str, where: str, summary: str, panel: str) -> None:
        super().__init__(name, help=summary, rich_help_panel=panel)
        self._where = where

    def load(self) -> Any:
        """Import the command and return it."""
        module, _, attribute = self._where.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            command: Any = group.commands.get(self.name or "", group)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            command = get_command(alone)
        command.name = self.name
        return command

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the words for the command; from here on it is the command itself that acts."""
        return self.load().make_context(*args, **settings)

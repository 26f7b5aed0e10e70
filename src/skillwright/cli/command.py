"""Commands that packages add to the program."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command of an installed package, named by an entry point of ``skillwright.commands``.

    The name of the entry point is the name of the command; ``data.webshop`` adds the command
    ``webshop`` to the group ``data``. Help shows a command without importing it, so the module of
    a `Command` should import nothing else.

    Attributes:
        place: ``package.module:attribute``, a function or a `typer.Typer`; imported when it runs.
        summary: The first line of its help.
        heading: The heading of the program's help that it stands under.
        before: The command that it is listed before; ``""`` lists it last.
    """

    place: str
    summary: str
    heading: str = "Plug-ins"
    before: str = ""

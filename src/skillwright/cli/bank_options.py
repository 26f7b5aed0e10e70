"""Options that the commands about banks share."""

from pathlib import Path
from typing import Annotated

import typer

from skillwright.core import ConfigError

BankPath = Annotated[
    str,
    typer.Option(
        "--bank",
        metavar="BANK",
        help="A bank's file; to look also a JSON file (ours, SkillRL's), or seed:alfworld.",
    ),
]
BankFile = Annotated[Path, typer.Option("--bank", metavar="FILE", help="The bank's file.")]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set bank.delta=0.4"),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="CONFIG", help="A YAML file that says what is played."),
]
Root = Annotated[Path, typer.Option(help="The folder that holds runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Teacher = Annotated[
    str | None,
    typer.Option(
        "--teacher", metavar="MODEL", help="Who writes skills: BACKEND:MODEL, or a YAML file."
    ),
]


def writable_file(bank: Path) -> Path:
    """Return the path of a bank's file that is there or will be made.

    Raises:
        ConfigError: It names what has no versions.
    """
    if str(bank).startswith("seed:") or bank.suffix.lower() == ".json":
        raise ConfigError(
            f"{str(bank)!r} cannot be changed: it has no versions and no log. Name a bank's file, "
            f"such as --bank bank.sqlite; `skillwright bank import {bank}` brings its skills in"
        )
    return bank


def existing_file(bank: str | Path) -> Path:
    """Return the path of a bank's file that must be there.

    Raises:
        ConfigError: It is not there, or is no file with versions.
    """
    path = Path(bank)
    if str(bank).startswith("seed:") or path.suffix.lower() == ".json":
        raise ConfigError(
            f"{str(bank)!r} has no versions and no log; `skillwright bank import {bank}` makes a "
            "bank of it"
        )
    if not path.is_file():
        raise ConfigError(
            f"there is no bank {str(bank)!r}. Name its file with --bank; `skillwright bank distil` "
            "and `skillwright bank import` make one"
        )
    return path

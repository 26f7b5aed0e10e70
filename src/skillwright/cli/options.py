"""Options and defaults that several commands share, and how a command prints its result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from skillwright.core import ConfigError

DEFAULT_ROOT = Path("runs")
NO_OVERRIDES: list[str] = []
Split = Literal["train", "val", "test", "valid_seen", "valid_unseen"]
"""A split by our name or SkillOpt's."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Root = Annotated[Path, typer.Option(help="The folder that holds runs.")]
ConfigPath = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file, ours or SkillOpt's.")
]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set train.epochs=2"),
]
Adapter = Annotated[
    str | None,
    typer.Option(
        "--adapter", metavar="FILE.py:CLASS", help="An EnvAdapter, in place of the file's env.name."
    ),
]
Compat = Annotated[
    Literal["skillopt"] | None,
    typer.Option("--compat", help="The adapter imports from this package, and finds ours there."),
]
BankPath = Annotated[
    str,
    typer.Option(
        "--bank",
        metavar="BANK",
        help="A bank's file; to look also a JSON file (ours, SkillRL's), or seed:alfworld.",
    ),
]
BankFile = Annotated[Path, typer.Option("--bank", metavar="FILE", help="The bank's file.")]
BankOverrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set bank.delta=0.4"),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="CONFIG", help="A YAML file that says what is played."),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        "--teacher", metavar="MODEL", help="Teacher model: BACKEND:MODEL, or a YAML file."
    ),
]
To = Annotated[
    Literal["claude", "codex", "agents"] | None,
    typer.Option(
        "--to", help="The agent: claude is ./.claude/skills, codex and agents are ./.agents/skills."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="DIR", help="The folder of skills to write into, in the agent's place."
    ),
]
SkillName = Annotated[str, typer.Option(help="Names the skill's folder: a-z, 0-9 and hyphens.")]
Sign = Annotated[
    Path | None,
    typer.Option(
        metavar="KEY", help="Sign the evidence with an Ed25519 key: a PEM file of openssl."
    ),
]
NoModel = Annotated[
    bool,
    typer.Option(
        "--no-model", help="Ask no model for the description; it is made of the tasks' words."
    ),
]


def by_our_name(split: Split) -> Literal["train", "val", "test"]:
    """Return our name of a split."""
    from skillwright.datasets import canonical_split  # most commands need no data

    return cast('Literal["train", "val", "test"]', canonical_split(split))


def print_result(as_json: bool, result: Any, show: Callable[[], object]) -> None:
    """Print a result as JSON for scripts, or show it to a person."""
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show()


def writable_file(bank: Path) -> Path:
    """Return the path of a bank's file that is there or will be made."""
    if str(bank).startswith("seed:") or bank.suffix.lower() == ".json":
        raise ConfigError(
            f"{str(bank)!r} cannot be changed: it has no versions and no log. Name a bank's file, "
            f"such as --bank bank.sqlite; `skillwright bank import {bank}` brings its skills in"
        )
    return bank


def existing_file(bank: str | Path) -> Path:
    """Return the path of a bank's file that must be there."""
    path = Path(bank)
    if str(bank).startswith("seed:") or path.suffix.lower() == ".json":
        raise ConfigError(
            f"{str(bank)!r} has no versions and no log; `skillwright bank import {bank}` makes a "
            "bank of it"
        )
    if not path.is_file():
        raise ConfigError(
            f"there is no bank {str(bank)!r}. Name its file with --bank; "
            "`skillwright bank distill` and `skillwright bank import` make one"
        )
    return path

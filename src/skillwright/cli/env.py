"""Commands about environments: ``env list`` and ``env check``."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from skillwright.cli.faults import DONE, NO, exit_codes
from skillwright.cli.words import make_console
from skillwright.core import DataError
from skillwright.envs import specs
from skillwright.envs.contract import check_env

app = typer.Typer(help="Look at environments.", no_args_is_help=True)
out = make_console()

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
NO_EXTRAS: list[str] = []


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the environments that can be named: ours, and those of installed packages."""
    found = specs()
    if as_json:
        typer.echo(json.dumps({name: spec.entry_point for name, spec in found.items()}))
        return
    table = Table("name", "class")
    for name, spec in found.items():
        table.add_row(escape(name), escape(spec.entry_point))
    out.print(table)


@app.command("check")
def check(
    name: Annotated[
        str, typer.Argument(help="A name, 'package.module:Class', or 'path/to/file.py:Class'.")
    ],
    extras: Annotated[
        list[str],
        typer.Option(help="JSON settings of an episode to check with; may be given several times."),
    ] = NO_EXTRAS,
    as_json: AsJson = False,
) -> None:
    """Check that an environment keeps the contract that every learner relies on."""
    with exit_codes():
        given = [_json_object(text) for text in extras]
        report = check_env(name, extras_list=given or None)
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
    else:
        for row in report.checks:
            mark = "[green]ok  [/]" if row.ok else "[red]FAIL[/]"
            out.print(f"{mark} {escape(row.name)}", highlight=False, end="")
            out.print(f"  {row.detail}", style="dim", markup=False, highlight=False)
    raise typer.Exit(DONE if report.ok else NO)


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"--extras {text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(
            f'--extras {text!r} is no JSON object; write one such as {{"max_turns": 5}}'
        )
    return value

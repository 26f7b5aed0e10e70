"""Commands about environments: ``env list``, ``env check`` and ``env init``."""

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape

from skillwright.cli.faults import DONE, NO, exit_codes
from skillwright.cli.options import Adapter, AsJson, Compat
from skillwright.cli.words import make_console, make_table, print_words
from skillwright.core import DataError
from skillwright.envs import Check, ContractReport, check_env, specs
from skillwright.envs.registry import class_name, write_project
from skillwright.jobs.run import check_adapter_class, tasks_in_file

app = typer.Typer(help="Look at environments, and begin one.", no_args_is_help=True)
out = make_console()

NO_EXTRAS: list[str] = []


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all environments with a name."""
    found = specs()
    if as_json:
        typer.echo(json.dumps({name: spec.entry_point for name, spec in found.items()}))
        return
    table = make_table("name", "class")
    for name, spec in found.items():
        table.add_row(escape(name), escape(spec.entry_point))
    out.print(table)


@app.command("init")
def init(
    name: Annotated[
        str, typer.Argument(help="The name of the benchmark; the folder is called so too.")
    ],
    as_json: AsJson = False,
) -> None:
    """Create a project for a new benchmark that trains offline."""
    with exit_codes():
        written = write_project(name, Path())
    if as_json:
        typer.echo(json.dumps([str(path) for path in written]))
        return
    for path in written:
        out.print(f"wrote {path}", style="dim", markup=False)
    for line in (
        f"{name}/ is a whole benchmark; from here:",
        f"  skillwright env check {name}/env.py:{class_name(name)}",
        f"  skillwright train {name}/train.yaml",
        f"Then make it yours: {name}/README.md says how.",
    ):
        print_words(out, line)


@app.command("check")
def check(  # noqa: PLR0913 - each is an option
    name: Annotated[
        str, typer.Argument(help="A name, 'package.module:Class', or 'path/to/file.py:Class'.")
    ] = "",
    extras: Annotated[
        list[str],
        typer.Option(help="JSON settings of an episode to check with; may be given several times."),
    ] = NO_EXTRAS,
    items: Annotated[
        Path | None,
        typer.Option(help="A JSON or JSONL file of tasks to check with, as env.data.path has."),
    ] = None,
    env_config: Annotated[
        str, typer.Option(help="JSON settings of the environment, as env.config has.")
    ] = "",
    fuzz: Annotated[int, typer.Option(min=0, help="Number of random actions.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the actions.")] = 0,
    adapter: Adapter = None,
    compat: Compat = None,
    as_json: AsJson = False,
) -> None:
    """Check that an environment satisfies the contract."""
    if adapter or (name and compat):
        _check_adapter(adapter or name, compat, as_json)
    if not name:
        raise typer.BadParameter("name an environment: skillwright env check NAME")
    with exit_codes():
        config = _json_object(env_config, "--env-config") if env_config else None
        given: list[Any] = [_json_object(text, "--extras") for text in extras]
        if items is not None:
            given += [task.extras for task in tasks_in_file(name, items, config)]
        report = check_env(name, extras_list=given or None, env_config=config, fuzz=fuzz, seed=seed)
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
    else:
        _show(report)
    raise typer.Exit(DONE if report.ok else NO)


def _check_adapter(name: str, compat: str | None, as_json: bool) -> NoReturn:
    with exit_codes():
        report = check_adapter_class(name, compat)
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
    else:
        _show(report)
    raise typer.Exit(DONE if report.ok else NO)


def _show(report: ContractReport) -> None:
    for row in report.checks:
        out.print(f"{_mark(row)} {escape(row.name)}", end="")
        out.print(f"  {row.detail}", style="dim", markup=False)
    broken = [row for row in report.checks if not row.ok]
    if broken:
        counts = f"{len(broken)} of {len(report.checks)} points"
        out.print(f"{report.env} breaks its contract in {counts}.", style="red", markup=False)
    else:
        out.print(f"{report.env} keeps its contract.", markup=False)


def _mark(row: Check) -> str:
    if not row.asked:
        return "[yellow]--  [/]"
    return "[green]ok  [/]" if row.ok else "[red]FAIL[/]"


def _json_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"{option} {text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(
            f'{option} {text!r} is no JSON object; write one such as {{"max_turns": 5}}'
        )
    return value

"""Commands that look at runs: ``runs list`` and ``runs show``."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skillwright.cli import tables
from skillwright.cli.faults import exit_codes
from skillwright.jobs import RunSummary, read_run, summarise_runs

app = typer.Typer(help="Look at runs.", no_args_is_help=True)
out = Console()

Root = Annotated[Path, typer.Option(help="The folder that holds runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
DEFAULT_ROOT = Path("runs")


@app.command("list")
def list_(root: Root = DEFAULT_ROOT, as_json: AsJson = False) -> None:
    """List the runs in a folder, the latest first."""
    with exit_codes():
        summaries = summarise_runs(root)
    if as_json:
        typer.echo(json.dumps([summary.to_dict() for summary in summaries]))
        return
    if not summaries:
        out.print(f"no runs in {escape(repr(str(root)))} yet; make one with:  skillwright demo")
        return
    table = Table("run", "job", "started", "steps", "accepted", "episodes", "result")
    for summary in summaries:
        table.add_row(
            escape(summary.name),
            summary.job,
            summary.started,
            str(summary.steps),
            str(summary.accepted),
            str(summary.episodes),
            escape(summary.result) + (" [yellow](scripted)[/]" if summary.is_scripted else ""),
        )
    out.print(table)


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name.")],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Show a run: where it stands, its decisions, its scores, what it consumed."""
    with exit_codes():
        summary: RunSummary = read_run(run, root)
    if as_json:
        typer.echo(json.dumps(summary.to_dict()))
        return
    out.print(
        f"[bold]{escape(summary.name)}[/]  {escape(str(summary.path))}",
        highlight=False,
        soft_wrap=True,
    )
    out.print(f"{summary.job}, started {summary.started}, {summary.result}", highlight=False)
    if summary.state is not None:
        tables.show_decisions(out, summary.state)
        if summary.state.report is not None:
            out.print(tables.split_table(summary.state.report))
    if summary.evaluation is not None:
        tables.show_evaluation(out, summary.evaluation, scripted=False)
    tables.own_up(out, summary.is_scripted)
    out.print(tables.usage_table(summary.usage))

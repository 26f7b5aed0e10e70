"""Commands that look at runs and studies: ``runs list``, ``runs show`` and those of episodes."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli import episodes, tables
from skillwright.cli.faults import exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.rl_tables import show_rl
from skillwright.cli.words import make_console, print_words
from skillwright.config import load_config
from skillwright.core import SkillwrightError
from skillwright.jobs.inspect import (
    RunSummary,
    StudySummary,
    find_study,
    read_run,
    read_study,
    summarize_runs,
    summarize_studies,
)
from skillwright.jobs.run import priced_models

app = typer.Typer(help="Look at runs.", no_args_is_help=True)
app.command("episodes")(episodes.episodes)
app.command("view")(episodes.view)
app.command("export")(episodes.export)
out = make_console()

_TO_THE_MINUTE = len("2026-01-31 23:59")


@app.command("list")
def list_(root: Root = DEFAULT_ROOT, as_json: AsJson = False) -> None:
    """List the runs in a folder, the latest first."""
    with exit_codes():
        found: list[RunSummary | StudySummary] = [*summarize_runs(root), *summarize_studies(root)]
    found.sort(key=lambda one: one.started, reverse=True)
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found]))
        return
    if not found:
        out.print(f"no runs in {escape(repr(str(root)))} yet; make one with:  skillwright demo")
        return
    out.print(_runs_table(found))


def _runs_table(found: Sequence[RunSummary | StudySummary]) -> Table:
    """Return one line per run; what is narrow stays whole, so that 80 columns are enough."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("job", no_wrap=True)
    table.add_column("started (UTC)", no_wrap=True)
    for name in ("accepted", "episodes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("result")
    for one in found:
        scripted = " [yellow](scripted)[/]" if one.is_scripted else ""
        decided = f"{one.accepted}/{one.steps}" if one.steps else ""
        table.add_row(
            escape(one.name),
            _job(one),
            one.started[:_TO_THE_MINUTE],
            decided,
            str(one.episodes),
            escape(one.result) + scripted,
        )
    table.caption = "accepted: candidates, and steps decided"
    return table


def _job(one: RunSummary | StudySummary) -> str:
    if isinstance(one, RunSummary):
        return one.job
    return f"study {one.finished}/{len(one.seeds)}"


@app.command("show")
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A folder of a run or study, or its name.")
    ],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Show a run or study: status, decisions, scores and usage."""
    with exit_codes():
        study = read_study(run, root) if find_study(run, root) else None
        summary = read_run(run, root) if study is None else None
    if as_json:
        found = [one.to_dict() for one in (study, summary) if one is not None]
        typer.echo(json.dumps(found[0]))
    elif study is not None:
        tables.show_study(out, study)
    elif summary is not None:
        _show_run(summary)


def _show_run(summary: RunSummary) -> None:
    _show_reports(summary)
    if not summary.is_finished:
        command = f"skillwright resume {shlex.quote(str(summary.path))}"
        print_words(out, f"not finished; continue with:  {command}")


def _show_reports(summary: RunSummary) -> None:
    name = f"[bold]{escape(summary.name)}[/]  {escape(str(summary.path))}"
    print_words(out, name, markup=True)
    _show_beginning(summary)
    if summary.state is not None:
        tables.show_state(out, summary.state)
    if summary.rl is not None:
        show_rl(out, summary.rl, summary.rl.best.iteration if summary.rl.best else None, False)
    if summary.evaluation is not None:
        tables.show_evaluation(out, summary.evaluation, scripted=False)
    elif summary.turns is not None:
        tables.show_turns(out, summary.turns)
    tables.own_up(out, summary.is_scripted)
    if summary.mode:
        out.print("\n[bold]How it differs from SkillOpt[/]")
        for line in summary.mode:
            tables.print_indented(out, 4 if line.startswith(" ") else 2, Text(line.strip()))
        for kept in summary.mode_facts.get("kept_out", ()):
            tables.print_indented(out, 4, Text(f"not done in any mode: {kept}", style="dim"))
    out.print(tables.usage_table(summary.usage))
    for line in _prices(summary.path):
        print_words(out, f"  {line}", "dim")


def _show_beginning(summary: RunSummary) -> None:
    out.print(f"{summary.job}, started {summary.started}, {summary.result}")
    if summary.fork is not None:
        print_words(out, f"continues {summary.fork.line}")


def _prices(run: Path) -> list[str]:
    """Say what a run's models cost, and how old that is."""
    try:
        llms = priced_models(load_config(run / "config.yaml"))
    except SkillwrightError:  # its money is shown all the same
        return []
    return [llm.line() for llm in llms if not llm.is_free]

"""``runs show``: the state of a run or a study."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.text import Text

from skillwright.cli import tables
from skillwright.cli.check import show_check
from skillwright.cli.faults import exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.rl_tables import show_rl
from skillwright.cli.words import make_console, print_words
from skillwright.config import load_config
from skillwright.core import SkillwrightError
from skillwright.jobs.inspect import RunSummary, find_study, read_run, read_study
from skillwright.jobs.run import priced_models

out = make_console()


def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A folder of a run or study, or its name.")
    ],
    root: Root = DEFAULT_ROOT,
    skillopt: Annotated[
        bool, typer.Option("--skillopt", help="Also show how the run differs from SkillOpt.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run or study: every decision with edits and reasons, scores and usage."""
    with exit_codes():
        study = read_study(run, root) if find_study(run, root) else None
        summary = read_run(run, root) if study is None else None
    if as_json:
        found = [one.to_dict() for one in (study, summary) if one is not None]
        typer.echo(json.dumps(found[0]))
    elif study is not None:
        tables.show_study(out, study)
    elif summary is not None:
        _show_run(summary, skillopt)


def _show_run(summary: RunSummary, skillopt: bool) -> None:
    _show_reports(summary)
    if summary.mode and (skillopt or summary.mode_facts.get("mode") == "parity"):
        _show_mode(summary)
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
    if summary.check is not None:
        show_check(out, summary.check, str(summary.path))
    else:
        tables.own_up(out, summary.is_scripted)
    out.print(tables.usage_table(summary.usage))
    for line in _prices(summary.path):
        print_words(out, f"  {line}", "dim")


def _show_mode(summary: RunSummary) -> None:
    out.print("\n[bold]How it differs from SkillOpt[/]")
    for line in summary.mode:
        tables.print_indented(out, 4 if line.startswith(" ") else 2, Text(line.strip()))
    for kept in summary.mode_facts.get("kept_out", ()):
        tables.print_indented(out, 4, Text(f"not done in any mode: {kept}", style="dim"))


def _show_beginning(summary: RunSummary) -> None:
    out.print(f"{summary.job}, started {summary.started}, {summary.result}")
    if summary.stopped:
        print_words(out, f"[yellow]stopped[/]: {escape(summary.stopped)}", markup=True)
    if summary.fork is not None:
        print_words(out, f"continues {summary.fork.line}")


def _prices(run: Path) -> list[str]:
    """Return the prices of a run's models, with their age, for people."""
    try:
        llms = priced_models(load_config(run / "config.yaml"))
    except SkillwrightError:  # its cost is shown anyway
        return []
    return [llm.line() for llm in llms if not llm.is_free]

"""``runs list``, and the lazily imported group of commands on runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from skillwright.cli.app import LazyCommand
from skillwright.cli.faults import exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.words import make_console, make_table
from skillwright.entry_points import Command
from skillwright.jobs.kinds import STUDY_NAME
from skillwright.jobs.listing import ListedRun, listed_runs

if TYPE_CHECKING:
    from skillwright.jobs.inspect import RunSummary, StudySummary

_OTHERS = {
    "episodes": "List episodes of a run with question, answer and score, the latest first.",
    "view": "Show an episode turn by turn: prompt with skills, observations, actions, calls, "
    "reward.",
    "export": "Write a run's episodes or calls into a file: JSON lines, Parquet, OpenTelemetry.",
    "show": "Show a run or study: every decision with edits and reasons, scores and usage.",
}


class _Runs(TyperGroup):
    """The commands; all but ``list`` are imported when they run."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in _OTHERS.items():
            module = "show" if name == "show" else "episodes"
            place = f"skillwright.cli.{module}:{name}"
            self.add_command(LazyCommand(name, Command(place, summary, "Commands")))


app = typer.Typer(
    help="Look into runs: episodes and what was prompted, decisions, costs; exports.",
    cls=_Runs,
    no_args_is_help=True,
)
out = make_console()

_TO_THE_MINUTE = len("2026-01-31 23:59")


@app.callback()
def _group() -> None:
    """Look into runs: episodes and what was prompted, decisions, costs; exports."""


@app.command("list")
def list_(root: Root = DEFAULT_ROOT, as_json: AsJson = False) -> None:
    """List the runs in a folder, the latest first."""
    if as_json:
        from skillwright.jobs.inspect import summarize_runs, summarize_studies

        with exit_codes():
            runs, studies = summarize_runs(root), summarize_studies(root)
            known: list[RunSummary | StudySummary] = [*runs, *studies]
        known.sort(key=lambda one: one.started, reverse=True)
        typer.echo(json.dumps([one.to_dict() for one in known]))
        return
    with exit_codes():
        found: list[ListedRun | StudySummary] = [*listed_runs(root), *_studies(root)]
    found.sort(key=lambda one: one.started, reverse=True)
    if not found:
        out.print(f"no runs in {escape(repr(str(root)))} yet; make one with:  skillwright demo")
        return
    out.print(_runs_table(found))


def _studies(root: Path) -> "Sequence[StudySummary]":
    """Summarize the studies below a folder; import their module only if there are any."""
    if not any(root.glob(f"*/{STUDY_NAME}")):
        return ()
    from skillwright.jobs.inspect import summarize_studies

    return summarize_studies(root)


def _runs_table(found: "Sequence[ListedRun | StudySummary]") -> Table:
    """Return a table with a row per run that fits 80 columns without cutting narrow columns."""
    whole = ("job", "started (UTC)", "kept", "episodes")
    table = make_table("run", *whole, "result", right=whole[2:], whole=whole)
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
    table.caption = "kept: changes of the skill, of steps decided"
    return table


def _job(one: "ListedRun | StudySummary") -> str:
    if isinstance(one, ListedRun):
        return one.job
    return f"study {one.finished}/{len(one.seeds)}"

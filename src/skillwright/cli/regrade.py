"""The command that scores a run's stored episodes again."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from skillwright.cli.faults import NO, exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root, print_result
from skillwright.cli.words import counted, make_console, make_table, print_words
from skillwright.evaluation import Score
from skillwright.jobs.inspect import Regraded, RegradeReport
from skillwright.jobs.inspect import regrade as score_again

out = make_console()


def regrade(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A folder of a run, or its name.")],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Score a run's stored episodes again; exit with 1 if a score changes."""
    with exit_codes():
        report = score_again(run, root)
    print_result(as_json, report.to_dict(), lambda: _show(report))
    if not report.stands:
        raise typer.Exit(NO)


def _show(report: RegradeReport) -> None:
    scored = report.unchanged + len(report.changed) + len(report.lost)
    print_words(
        out,
        f"scored again: {counted(scored, 'episode')}, {report.unchanged} as before, "
        f"{len(report.changed)} otherwise, {len(report.lost)} that cannot be played again; "
        f"left as they are: {counted(report.failures, 'fault')}",
    )
    if report.other_data:
        out.print(f"[yellow]{report.other_data} were played over other data[/]")
    if report.changed or report.lost:
        out.print(_table((*report.changed, *report.lost)))
    out.print(f"solved: {_rate(report.before)} before, {_rate(report.after)} now")


def _table(differing: tuple[Regraded, ...]) -> Table:
    table = make_table("episode", "task", "draw", "before", "now", "why")
    for one in differing:
        now = "-" if one.after is None else f"{one.after:g}"
        numbers = (str(one.draw), f"{one.before:g}", now)
        table.add_row(str(one.episode), escape(one.task_id), *numbers, escape(one.why))
    return table


def _rate(score: Score) -> str:
    return "nothing" if score.success_rate is None else f"[bold]{score.success_rate:.1%}[/]"

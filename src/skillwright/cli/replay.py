"""The commands that play or score stored episodes once more: ``replay``, ``fork``, ``regrade``."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from skillwright.cli.faults import NO, err, exit_codes
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    AsJson,
    Overrides,
    Root,
    print_result,
)
from skillwright.cli.training import play_evaluation
from skillwright.cli.words import counted, make_console, make_table, print_words
from skillwright.core import ConfigError
from skillwright.core.skill_file import read_skill_file
from skillwright.evaluation import Score
from skillwright.jobs.inspect import (
    Differing,
    Regraded,
    RegradeReport,
    ReplayReport,
    plan_fork,
    replay_run,
)
from skillwright.jobs.inspect import regrade as score_again
from skillwright.jobs.text import preflight

_SHOWN = 10  # differences that are shown

out = make_console()

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or name, or latest.")]


def replay(
    run: Run,
    episodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="EPISODE", help="As for `runs view`; without one, all."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All episodes, as without a name.")] = False,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Play recorded actions in fresh environments; exit with 1 if anything differs."""
    with exit_codes():
        if every and episodes:
            raise ConfigError("--all replays every episode; name no episode with it")
        with _progress() as bar:
            row = bar.add_task("replay", total=None)
            report = replay_run(
                run,
                episodes or (),
                root,
                lambda done, total: bar.update(row, completed=done, total=total),
            )
    print_result(as_json, report.to_dict(), lambda: _show(report))
    if not report.stands:
        raise typer.Exit(NO)


def fork(  # noqa: PLR0913 - each is an option
    run: Run,
    episode: Annotated[str, typer.Argument(metavar="EPISODE", help="As for `runs view`.")],
    turn: Annotated[
        int, typer.Option(min=0, metavar="N", help="The first turn that is played anew, from 0.")
    ],
    skill: Annotated[
        Path | None, typer.Option(help="The skill from there on; else the one that was injected.")
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", "-k", min=1, metavar="K", help="Number of continuations.")
    ] = 8,
    overrides: Overrides = NO_OVERRIDES,
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Continue a recorded episode from one of its turns, several times, with any skill."""
    with exit_codes():
        text = None if skill is None else read_skill_file(skill).text()
        planned = plan_fork(run, episode, turn, text, trials, root=root, overrides=overrides)
        asyncio.run(preflight(planned.config, planned.plan))
        started = planned.start()
    play_evaluation(started, planned.plan, as_json)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal
    )


def _show(report: ReplayReport) -> None:
    for one in report.differences[:_SHOWN]:
        _show_difference(one)
    more = report.differing - min(_SHOWN, len(report.differences))
    if more:
        print_words(out, f"{counted(more, 'more episode')} came out otherwise", "red")
    for reason, count in report.reasons.most_common():
        said = (
            f"{counted(count, 'episode')} not replayed, such as {report.samples[reason]}: {reason}"
        )
        print_words(out, said, "yellow")
    parts = [f"{counted(report.equal, 'episode')} as recorded"]
    if report.differing:
        parts.append(f"{report.differing:,} otherwise")
    if report.not_replayed:
        parts.append(f"{report.not_replayed:,} not replayed")
    said = f"{report.run}: {', '.join(parts)} ({counted(report.turns, 'turn')} played)"
    print_words(out, said, "green" if report.stands else "red")


def _show_difference(one: Differing) -> None:
    found = one.difference
    where = "" if found.turn is None else f", turn {found.turn}"
    draw = f", draw {one.draw}" if one.draw else ""
    print_words(out, Text(f"{one.episode} ({one.task_id}{draw}){where}: {found.field}", "bold"))
    print_words(out, Text(f"  - {' '.join(found.recorded.split())}", "red"))
    print_words(out, Text(f"  + {' '.join(found.now.split())}", "green"))
    if not one.as_then:
        why = "settings, data or version of the environment are not those of then"
        print_words(out, f"  {why}", "dim")


def regrade(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A folder of a run, or its name.")],
    root: Root = DEFAULT_ROOT,
    as_json: AsJson = False,
) -> None:
    """Score a run's stored episodes again; exit with 1 if a score changes."""
    with exit_codes():
        report = score_again(run, root)
    print_result(as_json, report.to_dict(), lambda: _show_scores(report))
    if not report.stands:
        raise typer.Exit(NO)


def _show_scores(report: RegradeReport) -> None:
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

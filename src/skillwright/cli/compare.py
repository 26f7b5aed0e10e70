"""The command that compares two runs on the tasks that both attempted."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.faults import NO, exit_codes
from skillwright.cli.options import DEFAULT_ROOT, AsJson, Root
from skillwright.cli.tables import own_up, print_indented
from skillwright.cli.words import counted, make_console, make_table, print_words
from skillwright.evaluation import PairedDifference, gain_text, points, points_range
from skillwright.jobs.inspect import (
    ComparedSide,
    ComparedTask,
    CompareMetric,
    RunComparison,
    compare_runs,
)

_MOST_NAMED = 10  # flipped tasks in each direction that are named without --all

out = make_console()


def compare(  # noqa: PLR0913 - each is an option
    run_a: Annotated[
        str,
        typer.Argument(metavar="RUN_A", help="The baseline: a run, or another program's results."),
    ],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="What is compared with it.")],
    root: Root = DEFAULT_ROOT,
    skill_a: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a training: initial, best, ...; of a file: a scorer, provider, ...",
        ),
    ] = None,
    skill_b: Annotated[str | None, typer.Option(metavar="NAME", help="The same for B.")] = None,
    metric: Annotated[
        CompareMetric, typer.Option(help="hard compares success, soft the reward.")
    ] = "hard",
    min_effect: Annotated[
        float | None,
        typer.Option(
            min=-1,
            max=1,
            help="Exit with 1 unless the lower bound of B - A reaches this share (0.02: 2 points).",
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="List every flipped task.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two runs, paired by task: the effect with its interval, and which tasks flipped.

    A file may hold results of another program: a table (CSV, JSON), inspect_ai, promptfoo, MLflow,
    or benchmark.json of a skill's evals.
    """
    with exit_codes():
        found = compare_runs(run_a, run_b, root, skill_a=skill_a, skill_b=skill_b, metric=metric)
    shortfall = "" if min_effect is None else found.shortfall(min_effect)
    if as_json:
        passed = None if min_effect is None else not shortfall
        asked = {"min_effect": min_effect, "passed": passed, "shortfall": shortfall}
        typer.echo(json.dumps(found.to_dict() | asked))
    else:
        show_comparison(out, found, names_all=all_)
        if min_effect is not None:
            _say(out, _answer(found, min_effect, shortfall))
    if shortfall:
        raise typer.Exit(NO)


def show_comparison(console: Console, found: RunComparison, *, names_all: bool = False) -> None:
    """Show how two runs differ: scores by task type, flipped tasks, and a conclusion."""
    for label, side in (("A", found.a), ("B", found.b)):
        head = Text.assemble((f"{label}  ", "bold"), side.run, (f"  {side.what}", "dim"))
        _say(console, head)
    _say(console, _counts(found))
    for line in (*_left_out("A", found.a), *_left_out("B", found.b), *found.notes):
        print_indented(console, 2, Text(line, style="yellow"))
    console.print(_table(found))
    _say(console, _consumption(found), style="dim")
    most = len(found.tasks) if names_all else _MOST_NAMED
    _show_flipped(console, "Solved by B and not by A", found.now_solved, most)
    _show_flipped(console, "Solved by A and not by B", found.no_longer_solved, most)
    console.print()
    _say(console, _how_sure(found.overall))
    own_up(console, found.is_scripted)
    _say(console, found.sentence, style="bold")


def _say(console: Console, text: str | Text, style: str = "") -> None:
    """Print a sentence, wrapped between words on a terminal only."""
    print_words(console, text, style)


def _counts(found: RunComparison) -> str:
    return (
        f"{counted(len(found.tasks), 'common task')}; scored attempts at them: "
        f"{found.a.attempts:,} in A, {found.b.attempts:,} in B"
    )


def _left_out(label: str, side: ComparedSide) -> list[str]:
    """Describe the episodes of a side that were not compared."""
    other = "B" if label == "A" else "A"
    lines = []
    if side.only_here:
        lines.append(f"left out: {counted(side.only_here, 'task')} of {label} that {other} lacks")
    if side.failures:
        lines.append(f"left out: {counted(side.failures, 'fault')} of {label}")
    if side.unscored:
        tasks = counted(side.unscored, "common task")
        lines.append(f"left out: {tasks} of which {label} has no score")
    return lines


def _consumption(found: RunComparison) -> str:
    """Describe what an attempt consumes on both sides, where both say it."""
    parts = []
    for name, a, b, style in (
        ("tokens per attempt", found.a.tokens, found.b.tokens, ",.0f"),
        ("USD per 1,000 attempts", found.a.cost_usd, found.b.cost_usd, ".2f"),
    ):
        if a and b:
            scale = 1000 if "USD" in name else 1
            parts.append(f"{name}: {scale * a:{style}} -> {scale * b:{style}} ({b / a - 1:+.0%})")
    return "; ".join(parts)


def _table(found: RunComparison) -> Table:
    """Return both scores and the difference by task type."""
    is_soft = found.metric == "soft"
    unit = "mean reward" if is_soft else "tasks solved"
    numbers = ("tasks", "A", "B", "B - A", "95% interval")
    title = f"\nScores on the common tasks: {unit}; B - A in points"
    table = make_table("task type", *numbers, right=numbers, whole=numbers, title=title)

    def row(name: str, one: PairedDifference, style: str = "") -> None:
        scores = [f"{x:.3f}" if is_soft else f"{x:.1%}" for x in (one.first, one.second)]
        gain = points(one.effect), points_range(one.interval)
        table.add_row(name, str(one.tasks), *scores, *gain, style=style)

    for name, one in found.task_types.items():
        row(escape(name.replace("_", " ")), one)
    if found.task_types:
        table.add_section()
    row("all", found.overall, "bold")
    if len(found.task_types) > 1:
        table.caption = "by task type: not corrected for looking at several"
    return table


def _show_flipped(console: Console, title: str, tasks: Sequence[ComparedTask], most: int) -> None:
    console.print(f"\n[bold]{title}[/]: {len(tasks)}")
    single = all(task.attempts_a == task.attempts_b == 1 for task in tasks)
    for task in tasks[:most]:
        rates = "" if single else f"  {task.success_a:.0%} -> {task.success_b:.0%}"
        print_indented(console, 2, Text(f"{task.id}{rates}"))
    if len(tasks) > most:
        print_indented(console, 2, Text(f"and {len(tasks) - most} more; --all names them"))


def _how_sure(one: PairedDifference) -> str:
    moved = f"{one.better} of {counted(one.tasks, 'task')} scored higher in B, {one.worse} lower."
    how = "Interval: Student's t over the tasks' mean differences (clustered by task)."
    if one.method == "wilson":
        how = "Interval: by Wilson's bound, because all tasks changed by the same amount."
    tests = {"paired t test": one.p_value, "randomization test": one.exact_p_value}
    shown = [f"p = {p:.2g} ({name})" for name, p in tests.items() if p is not None]
    return " ".join([moved, how, *([f"Two-sided: {', '.join(shown)}."] if shown else [])])


def _answer(found: RunComparison, min_effect: float, shortfall: str) -> Text:
    asked = f"--min-effect {min_effect:g}: "
    if shortfall:
        return Text.assemble(asked, ("not reached", "red"), f": {shortfall}.")
    reached = f": the lower bound of the 95% interval is {gain_text(found.overall.interval.low)}."
    return Text.assemble(asked, ("reached", "green"), reached)

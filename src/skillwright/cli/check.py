"""The command that checks a changed skill against the one before."""

import asyncio
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from skillwright.cli import tables
from skillwright.cli.faults import ASKED_WRONGLY, NO, err, exit_codes
from skillwright.cli.live import display
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    AsJson,
    ConfigFile,
    Overrides,
    Root,
    Split,
    by_our_name,
)
from skillwright.cli.skill import say_plan, show_values
from skillwright.cli.words import make_console, print_words
from skillwright.core import SkillwrightError, UsageError
from skillwright.core.errors import BudgetSpent
from skillwright.jobs.inspect import (
    MOST_ITEMS,
    AblationPlan,
    CheckRequest,
    ablate,
    begin_check,
    begin_model_check,
    cost_lines,
    noise_text,
    plan_ablation,
    refuse_other_file,
    split_document,
    write_junit,
    write_markdown,
)
from skillwright.jobs.run import money_text, priced_models
from skillwright.jobs.text import (
    CheckReport,
    EvalPlan,
    Run,
    has_scripted_models,
    run_check,
    run_evaluation,
)

_COLORS = {"better": "green", "not worse": "green", "worse": "red", "undecided": "yellow"}
_LEAVE_ONE_OUT_DRAWS = 2
_SHOWN = 5  # tasks that are named in each direction

out = make_console()


def check(  # noqa: PLR0913 - each is an option
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The skill: a file, a folder, a run or RUN@3.")
    ],
    against: Annotated[
        str,
        typer.Option(
            metavar="OLD",
            help="The skill before: as NEW, or a revision of it in git; by default, no skill.",
        ),
    ] = "",
    config: ConfigFile = None,
    overrides: Overrides = NO_OVERRIDES,
    split: Annotated[
        Split | None, typer.Option(help="Which tasks; by default test, or val of an adapter.")
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="The loss that 'not worse' rules out.")
    ] = 0.1,
    draws: Annotated[
        int,
        typer.Option(min=0, help="Maximum draws per task and side; 0 is 8, or more for few tasks."),
    ] = 0,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Instead: which lines still help another model of the endpoint, on val tasks?",
        ),
    ] = None,
    root: Root = DEFAULT_ROOT,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the result as JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write it as Markdown, for a pull request."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Is a changed skill better, not worse, or worse? Exit with 1 if worse or undecided."""
    asked = CheckRequest(
        new=new,
        against=against,
        config=config,
        overrides=overrides,
        root=None if root == DEFAULT_ROOT else root,
        split=None if split is None else by_our_name(split),
        margin=margin,
        draws=draws,
    )
    if model is not None:
        with exit_codes():
            if against or junit or markdown or split:
                raise UsageError(
                    "--model measures the lines of one skill on val tasks; leave --against, "
                    "--split, --junit and --markdown out"
                )
        _check_model(asked, model, as_json)
        return
    with exit_codes():
        for path in (junit, markdown):
            refuse_other_file(path)
        with _reporting(junit, markdown):
            run = asyncio.run(begin_check(asked))
    play_check(run, as_json, junit, markdown)


def _check_model(asked: CheckRequest, model: str, as_json: bool) -> None:
    """Measure which lines of a skill help another model, and propose which to delete."""
    with exit_codes(), _reporting(None, None):
        run, skill = asyncio.run(begin_model_check(asked, model))
    llms = priced_models(run.config, trains=False)
    items = len(split_document(skill.text, by_item=True)) <= MOST_ITEMS
    plan = AblationPlan(asked.draws or _LEAVE_ONE_OUT_DRAWS, asked.margin, by_item=items)
    again = ["--margin", f"{plan.margin:g}", "--draws", str(plan.draws), *["--items"] * items]
    command = shlex.join(["skillwright", "skill", "ablate", str(run.folder.path), *again])
    with run, exit_codes(command), _reporting(None, None):
        with display(err if as_json else out, llms) as callback:
            whole = asyncio.run(run_evaluation(run, EvalPlan("val", 1), callback))
        work = plan_ablation(run, skill, plan)
        say_plan(work, money_text(asyncio.run(work.cost_usd()), llms))
        with display(err if as_json else out, llms) as callback:
            found = asyncio.run(ablate(work, callback))
        scripted = has_scripted_models(run.config, run.store, run.plan)
    rate = whole.table.overall.success_rate
    if as_json:
        beside = {"model": model, "success_rate": rate, "run": str(run.folder.path)}
        typer.echo(json.dumps(found.to_dict() | beside | {"scripted": scripted}))
        return
    if rate is not None:
        print_words(out, f"{model} with the whole skill: {rate:.0%} of val tasks solved")
    show_values(found, work, scripted)
    if found.deletions:
        write = f"{command} --write shorter.md"
        print_words(out, f"test all deletions together, and write the rest:  {write}")


def play_check(
    run: Run, as_json: bool, junit: Path | None = None, markdown: Path | None = None
) -> None:
    """Check to the end of a run, and show the answer."""
    llms = priced_models(run.config, trains=False)
    with run, exit_codes(run.resume_command), _reporting(junit, markdown):
        with display(err if as_json else out, llms) as callback:
            report = asyncio.run(run_check(run, callback))
        if junit is not None:
            write_junit(junit, report)
        if markdown is not None:
            write_markdown(markdown, report)
    if as_json:
        typer.echo(json.dumps(_as_json(report, str(run.folder.path))))
    else:
        show_check(out, report, str(run.folder.path))
    if not report.is_fine:
        raise typer.Exit(NO)


def _as_json(report: CheckReport, folder: str) -> dict[str, Any]:
    found = report.to_dict()
    same, scripted = found.pop("is_same"), found.pop("is_scripted")
    facts = {"run": folder, "fine": report.is_fine, "same": same, "scripted": scripted}
    return found | facts | {"sentence": report.verdict.sentence}


def show_check(console: Console, report: CheckReport, folder: str) -> None:
    """Show the answer, the noise, the cost, and the tasks that changed."""
    print_words(console, Text.assemble(("old  ", "bold"), report.plan.old))
    print_words(console, Text.assemble(("new  ", "bold"), report.plan.new))
    if report.is_same:
        print_words(console, "The skill did not change: it was compared with itself.", "yellow")
    for note in report.plan.notes:
        print_words(console, f"note: {note}", "yellow")
    print_words(console, noise_text(report), "red" if report.noise.is_odd else "dim")
    for line in cost_lines(report):
        print_words(console, line, "dim")
    for title, tasks in (("worse", report.worse), ("better", report.better)):
        if tasks:
            named = ", ".join(
                f"{one.id} ({one.old:.2f} -> {one.new:.2f})" for one in tasks[:_SHOWN]
            )
            more = f", and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
            print_words(console, f"{title} on {len(tasks)}: {named}{more}")
    tables.own_up(console, report.is_scripted)
    style = f"bold {_COLORS[report.verdict.answer]}"
    print_words(console, report.verdict.sentence, style)
    print_words(console, f"read them with:  skillwright runs episodes {folder}", "dim")


@contextmanager
def _reporting(junit: Path | None, markdown: Path | None) -> Iterator[None]:
    """Write an error into the files as well; a dead endpoint exits with 2, as wrong input does."""
    try:
        yield
    except SkillwrightError as error:
        if not isinstance(error, BudgetSpent):
            error.exit_code = ASKED_WRONGLY
        if junit is not None:
            write_junit(junit, None, str(error))
        if markdown is not None:
            write_markdown(markdown, None, str(error))
        raise

"""``skillwright learn-from-sessions``: logs of coding agents become skills, if that is proven."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli import tables
from skillwright.cli.faults import NO, err, exit_codes
from skillwright.cli.live import display
from skillwright.cli.options import (
    NO_OVERRIDES,
    AsJson,
    BankFile,
    BankOverrides,
    ConfigFile,
    NoModel,
    Output,
    SkillName,
    Teacher,
    To,
    existing_file,
    print_result,
    writable_file,
)
from skillwright.cli.verify import show_taken
from skillwright.cli.words import counted, make_console, print_words
from skillwright.core import ConfigError
from skillwright.core.fence import one_line, without_controls
from skillwright.jobs.bank import check_bank_job
from skillwright.jobs.inspect import PLACES, ExportOptions
from skillwright.plugins.sessions.learn import (
    LearnReport,
    Plan,
    begin_round,
    learn_from_sessions,
    plan_round,
    report_of,
    roll_back_sessions,
    session_config,
    settle,
)
from skillwright.plugins.sessions.logs import Found, default_folders, read_sessions

FILE = Path("sessions.sqlite")
out = make_console()

_SHOWN = 80


def learn(  # noqa: PLR0913 - each is an option
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER]...",
            help="Folders with session logs; none means those of Claude Code, Codex and OpenCode.",
        ),
    ] = None,
    config: ConfigFile = None,
    bank: BankFile = FILE,
    teacher: Teacher = None,
    to: To = None,
    output: Output = None,
    name: SkillName = "learned-from-sessions",
    project: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Only sessions in this folder; without a FOLDER, this is where you are.",
        ),
    ] = None,
    look: Annotated[
        bool, typer.Option("--look", help="Only show what would be read; ask no model.")
    ] = False,
    rollback: Annotated[
        str | None,
        typer.Option("--rollback", metavar="REASON", help="Take the latest adoption back."),
    ] = None,
    no_model: NoModel = False,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Learn skills from session logs of coding agents, and stage the proven ones."""
    if rollback is not None:
        _take_back(bank, rollback, as_json)
        return
    with exit_codes():
        found = _read(folders or [], project)
        if not look:
            settle(writable_file(bank))
        plan = plan_round(found, bank)
        if look:
            report = report_of(found, plan, plan.why_not)
            print_result(as_json, report.to_dict(), partial(_show_requests, found, plan, report))
            return
        settings, options = None, _options(to, output, name, no_model)
        if config is None:
            raise ConfigError(
                "say who acts and who teaches: --config CONFIG, a YAML file with models.target and "
                "models.optimizer (and models.teacher). With --look no model is asked"
            )
        settings = session_config(config, bank, plan, teacher, overrides)
        why_not = plan.why_not or begin_round(plan, settings, bank)
        if not why_not:
            asyncio.run(check_bank_job(settings))
    if why_not:
        _end(report_of(found, plan, why_not), as_json)
    with exit_codes(_again), display(err if as_json else out) as callback:
        work = learn_from_sessions(found, plan, settings, bank, options, callback)
        report = asyncio.run(work)
    _end(report, as_json)


def _read(folders: Sequence[Path], project: Path | None) -> Found:
    if folders:
        return read_sessions(folders, project)
    known = default_folders()
    if not known:
        raise ConfigError(
            "neither Claude Code, Codex nor OpenCode has left session logs in its usual folder; "
            "name a FOLDER"
        )
    return read_sessions(known, project or Path())


def _options(to: str | None, output: Path | None, name: str, no_model: bool) -> ExportOptions:
    if to is None and output is None:
        raise ConfigError(
            "say where what is proven is staged: --to claude, codex or agents for the folder in "
            "which that agent looks for skills, or --output DIR for another one"
        )
    return ExportOptions(output or PLACES[to or "agents"], name, asks_model=not no_model)


def _again() -> str:
    return shlex.join(["skillwright", *sys.argv[1:]])


def _take_back(bank: Path, reason: str, as_json: bool) -> None:
    with exit_codes():
        change = roll_back_sessions(existing_file(bank), reason)
    folder = str(Path(change.place) / change.name)
    how = "removed" if change.after is None else counted(len(change.after), "file")
    said = f"taken back: {without_controls(folder)} is as it was before ({how})"
    result = {"folder": folder, "took_back": change.takes_back}
    print_result(as_json, result, lambda: print_words(out, said))


def _end(report: LearnReport, as_json: bool) -> None:
    print_result(as_json, report.to_dict(), lambda: _show(report))
    raise typer.Exit(0 if report.adopted else NO)


def _show(report: LearnReport) -> None:
    _show_found(report)
    if report.distilled is not None:
        taught = report.distilled
        decided = ", ".join(f"{count} {name}" for name, count in taught.decisions.items())
        print_words(
            out,
            f"taught by {counted(taught.read, 'request')} of earlier sessions: "
            f"{decided or 'nothing'}, {len(taught.blocked)} blocked by lint",
        )
    if report.verdict is not None:
        print_words(out, f"release test on later sessions: {report.verdict.reason}")
    if report.because:
        print_words(out, f"nothing adopted: {report.because}")
    else:
        print_words(out, f"adopted as version {report.version}: {', '.join(report.adopted)}")
    if report.staged is not None:
        show_taken(out, report.staged)
    elif report.is_scripted:
        print_words(out, "scripted models took part: programs, not language models")


def _show_found(report: LearnReport) -> None:
    named = [f"{count} of {name}" for name, count in report.sessions.items()]
    print_words(out, f"sessions: {', '.join(named) or 'none'}")
    outcomes = ", ".join(f"{count} {name}" for name, count in report.outcomes.items())
    checks = ", ".join(f"{count} by {name}" for name, count in report.checks.items())
    print_words(out, f"requests: {outcomes or 'none'}; with a check: {checks or 'none'}")
    sizes = ", ".join(f"{count} {split}" for split, count in report.tasks.items())
    print_words(out, f"tasks: {sizes}")
    for why, count in report.left_out.items():
        tables.print_indented(out, 2, Text(f"left out: {count} {why}", "dim"))


def _show_requests(found: Found, plan: Plan, report: LearnReport) -> None:
    """Show the stored part of each request, and the first place of each kind of omission."""
    splits = {
        one: split for split in ("train", "val", "test") for one in getattr(plan.round, split)
    }
    for one in plan.requests:
        line = Text(f"{one.session} {splits.get(one.session, 'unused'):<6} ")
        line.append(f"{one.outcome.value:<8}", "bold" if one.decides else "dim")
        line.append(f"{one_line(one.prompt, _SHOWN) or '(nothing of it is kept)'}  ")
        line.append(without_controls(one.because), "dim")
        tables.print_indented(out, 0, line)
        if one.check is not None and one.decides:
            other = f", not {one.check.unwanted}" if one.check.unwanted else ""
            tables.print_indented(out, 4, Text(f"check: {one.check.wanted}{other}"))
    _show_found(report)
    for why, where in found.left_out.first.items():
        if where:
            tables.print_indented(out, 2, Text(f"first {why}: {one_line(where, 200)}", "dim"))
    if report.because:
        print_words(out, f"nothing to do: {report.because}")

"""``skillwright bank``: look into a skill bank. The commands that change one are beside it."""

from typing import Annotated

import typer

from skillwright.bank import BankStore, calibrate, seed_pairs
from skillwright.cli import bank_change, bank_reports, bank_tables
from skillwright.cli.faults import NO, exit_codes
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    AsJson,
    BankOverrides,
    BankPath,
    ConfigFile,
    Root,
    existing_file,
    print_result,
)
from skillwright.cli.words import make_console
from skillwright.config import load_config
from skillwright.config.bank_settings import search_settings
from skillwright.envs import spec
from skillwright.jobs.bank.look import (
    bank_statistics,
    find_task,
    history_of,
    lint_bank,
    search_bank,
    task_of_text,
)
from skillwright.jobs.parts.bank_source import opened_embedder, read_bank

app = typer.Typer(help="Skill banks: distil, look into, evolve, move.", no_args_is_help=True)
bank_change.add_to(app)
out = make_console()


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(metavar="TASK", help="A goal in words, or a task's id.")],
    bank: BankPath = bank_change.DEFAULT,
    env: Annotated[
        str, typer.Option("--env", help="The environment, which knows a task's category.")
    ] = "",
    config: ConfigFile = None,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Show what a task would be told, and how similar each skill is to it."""
    with exit_codes():
        if config is not None:
            settings = load_config(config, overrides)
            task = find_task(settings.env, query)
            told = settings.bank
        else:
            if env:
                spec(env)
            told, task = search_settings(overrides).bank, task_of_text(query, env)
        answer = search_bank(read_bank(bank, "--bank"), task, told)
    print_result(as_json, answer.to_dict(), lambda: bank_tables.show_answer(out, answer))


@app.command("show")
def show(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill's id, such as t014.")],
    bank: BankPath = bank_change.DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show a skill: what it says, what it rests on, how it does, and its history."""
    with exit_codes():
        found = history_of(bank, skill)
    print_result(
        as_json, bank_tables.history_json(found), lambda: bank_tables.show_history(out, found)
    )


@app.command("stats")
def stats(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Runs whose episodes skills were learnt from."),
    ] = None,
    bank: BankPath = bank_change.DEFAULT,
    root: Root = DEFAULT_ROOT,
    overrides: BankOverrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Count skills, draw their growth, and measure how much shorter they are than trajectories."""
    with exit_codes():
        settings = search_settings(overrides).bank
        found = bank_statistics(bank, runs or [], root, settings)
    print_result(as_json, found.to_dict(), lambda: bank_tables.show_statistics(out, found))


@app.command("lint")
def lint_command(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="A file or folder of skills, before its import."),
    ] = None,
    bank: BankPath = bank_change.DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Look for what may not stand in a skill, and say why; 1 where a finding blocks."""
    with exit_codes():
        found = lint_bank(bank, source)
    print_result(
        as_json,
        [bank_tables.findings_json(*one) for one in found],
        lambda: bank_tables.show_findings(out, found),
    )
    if any(finding.blocks for _, findings in found for finding in findings):
        raise typer.Exit(NO)


@app.command("log")
def log(bank: BankPath = bank_change.DEFAULT, as_json: AsJson = False) -> None:
    """List what happened to a bank, with reasons and verdicts, the latest last."""
    with exit_codes(), BankStore.open(existing_file(bank), read_only=True) as store:
        entries = store.log()
    print_result(
        as_json,
        [bank_tables.entry_json(one) for one in entries],
        lambda: bank_tables.show_log(out, entries),
    )


@app.command("diff")
def diff(
    before: Annotated[int, typer.Argument(metavar="BEFORE", help="A version; 0 is empty.")],
    after: Annotated[
        int | None, typer.Argument(metavar="[AFTER]", help="Another; else the newest.")
    ] = None,
    bank: BankPath = bank_change.DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two versions of a bank."""
    with exit_codes(), BankStore.open(existing_file(bank), read_only=True) as store:
        found = store.diff(before, after)
    print_result(as_json, bank_tables.diff_json(found), lambda: bank_tables.show_diff(out, found))


@app.command("calibrate")
def calibrate_command(
    embedder: Annotated[
        str,
        typer.Option(help="lexical, a sentence-transformers model, or URL#model."),
    ] = "lexical",
    tasks: Annotated[int, typer.Option(min=1, help="Train tasks of each environment.")] = 120,
    as_json: AsJson = False,
) -> None:
    """Show how well an embedder's scores part what belongs together, by delta."""
    with exit_codes(), opened_embedder(embedder) as made:
        found = calibrate(made, seed_pairs(tasks))
    print_result(
        as_json,
        bank_reports.calibration_json(found),
        lambda: bank_reports.show_calibration(out, found),
    )

"""``skill describe``: train the description of a skill's folder."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli.faults import NO, exit_codes, say
from skillwright.cli.options import AsJson, print_result
from skillwright.cli.tables import print_indented
from skillwright.cli.words import counted, make_console, print_words
from skillwright.config import RunConfig, load_config, study_settings
from skillwright.core import ConfigError, UsageError
from skillwright.core.fence import without_controls
from skillwright.core.skill_file import SKILL_FILE
from skillwright.jobs.inspect import (
    DescribePlan,
    NewDescription,
    train_description,
    write_description,
)
from skillwright.jobs.run.preflight import ask_models
from skillwright.models import ModelConfig

out = make_console()
_NO_QUERIES: list[Path] = []


def describe(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a SKILL.md.")],
    queries: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Requests besides those in FOLDER/evals: [{query, should_trigger}], JSON or YAML.",
        ),
    ] = _NO_QUERIES,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG",
            help="A configuration: its tasks should open the skill, its models write and choose.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Writes and chooses: BACKEND:MODEL, or a YAML file. Without a model, words do.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the description; write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a skill's description on requests that should and should not open it.

    Only the description's value in SKILL.md changes, and only if the paired gate proves it better
    on requests that were held out. Exits with 1 if it is not.
    """
    with exit_codes():
        settings = None if config is None else load_config(config)
        writer, chooser = _models(settings, model, config)
        if folder.name == SKILL_FILE:
            folder = folder.parent
        plan = DescribePlan(folder, queries, settings, writer, chooser)
        if writer is not None and chooser is not None:
            asyncio.run(ask_models({"optimizer": writer, "target": chooser}))
        found = asyncio.run(train_description(plan))
        follows = write_description(found) if found.content and not dry_run else []
    written = bool(found.content) and not dry_run
    print_result(
        as_json,
        {**found.to_dict(), "written": written, "notes": [*found.notes, *follows]},
        lambda: _show(found, follows, dry_run=dry_run),
    )
    if not found.is_proven:
        raise typer.Exit(NO)


def _models(
    settings: RunConfig | None, model: str | None, config: Path | None
) -> tuple[ModelConfig | None, ModelConfig | None]:
    """Return the model that writes and the one that chooses; scripted ones do neither."""
    if model is not None:
        try:
            llm = study_settings(model, config, ()).models.teacher
        except ConfigError as error:
            raise ConfigError(str(error).replace("teacher", "model")) from error
        if llm is None or llm.is_scripted:
            raise UsageError(
                f"--model {model!r} is a program, which cannot read descriptions; leave it out, "
                "and words decide"
            )
        return llm, llm
    if settings is None:
        return None, None
    models = settings.models
    both = (models.optimizer, models.target)
    return both if not any(one.is_scripted for one in both) else (None, None)


def _show(found: NewDescription, follows: list[str], *, dry_run: bool) -> None:
    print_words(
        out,
        f"{counted(found.opening, 'request')} should open it and {found.others} should not; "
        f"{found.held_out} of them are held out. {counted(found.rivals, 'skill')} next to it.",
    )
    by = f"decided by {found.decided_by}; candidates by {found.written_by}"
    if found.written_by == "words":
        by += " (no model is named with --model or --config, and a model may choose otherwise)"
    print_words(out, by)
    for note in (*found.notes, *follows):
        print_indented(out, 2, Text(without_controls(f"note: {note}"), "yellow"))
    if found.verdict is None:
        say("The description stays.")
        return
    print_words(out, found.verdict.reason)
    print_indented(out, 2, Text(without_controls(f"- {found.old}"), "red"))
    print_indented(out, 2, Text(without_controls(f"+ {found.new}"), "green"))
    where = Path(found.folder) / SKILL_FILE
    if not found.is_proven:
        say("The description stays: the new one is not proven better.")
    elif dry_run:
        say(f"Nothing was written. Without --dry-run this changes {where}.")
    else:
        say(f"written: {where} (only the description)")

"""The command ``doctor``: is this machine ready?"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.faults import DONE, NO, exit_codes
from skillwright.cli.options import NO_OVERRIDES, AsJson, Overrides
from skillwright.cli.words import counted, make_console, print_words
from skillwright.config import (
    KEPT_OUT,
    RlConfig,
    RunConfig,
    is_rl_config,
    load_config,
    load_rl_config,
    parity_settings,
)
from skillwright.core import ConfigError
from skillwright.jobs import Finding, Health, examine
from skillwright.jobs.weights import refuse_without_torch
from skillwright.plugins.skillopt.parity_report import shown

out = make_console()
_MARKS = {Health.OK: "[green]ok  [/]", Health.NOTE: "[yellow]note[/]", Health.BAD: "[red]BAD [/]"}


_DEFAULTS = {
    "models": {
        "target": {"backend": "scripted", "model": "household"},
        "optimizer": {"backend": "scripted", "model": "analyst"},
    }
}
"""A configuration that says nothing but who takes part."""


def parity_table(settings: RunConfig) -> Table:
    """Return where a configuration stands on every default that differs from SkillOpt's."""
    table = Table(
        title="\nDefaults that differ from SkillOpt's (--parity takes theirs)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("key", no_wrap=True)
    for name in ("here", "there", "why ours differs"):
        table.add_column(name, overflow="fold")
    for row, value in parity_settings(settings):
        style = "" if value != row.original else "dim"
        cells = (row.key, shown(value), shown(row.original), row.why)
        table.add_row(*map(escape, cells), style=style)
    return table


def kept_out_table() -> Table:
    """Return what SkillOpt does and no mode here does, with what is done instead."""
    table = Table(
        title="\nKept out on purpose, in parity too", title_justify="left", title_style="bold"
    )
    table.add_column("there", overflow="fold", ratio=1)
    table.add_column("here", overflow="fold", ratio=1)
    for row in KEPT_OUT:
        table.add_row(escape(row.there), escape(row.here))
    return table


def doctor(
    config: Annotated[
        Path | None, typer.Argument(help="Also check what this configuration names.")
    ] = None,
    overrides: Overrides = NO_OVERRIDES,
    parity: Annotated[
        bool, typer.Option("--parity", help="Also list the defaults that differ from SkillOpt's.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for whatever would stop a run: Python, disk, extras, environments, keys, endpoints."""
    with exit_codes():
        if overrides and config is None:
            raise ConfigError("--set changes a configuration; name one: skillwright doctor CONFIG")
        settings: RunConfig | None = None
        if config is not None and is_rl_config(config):
            findings = _of_recipe(load_rl_config(config, overrides))
        else:
            settings = load_config(config, overrides) if config else None
            root = Path(settings.run.root if settings else "runs")
            findings = asyncio.run(examine(root, settings))
    if parity and not as_json:
        out.print(
            parity_table(settings or RunConfig.model_validate(_DEFAULTS)), kept_out_table(), ""
        )
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _show(findings)
    bad = any(finding.health is Health.BAD for finding in findings)
    raise typer.Exit(NO if bad else DONE)


def _of_recipe(settings: RlConfig) -> list[Finding]:
    """Look at the machine, and at what a run of the recipe would need."""
    findings = asyncio.run(examine(Path(settings.run.root)))
    try:
        refuse_without_torch()
    except ConfigError as error:
        return [*findings, Finding("policy", Health.BAD, str(error))]
    # Imported here, because it imports torch.
    from skillwright.jobs.weights.preflight import examine_rl

    return [*findings, *asyncio.run(examine_rl(settings))]


def _show(findings: Sequence[Finding]) -> None:
    """Print findings; the problems come last, where they are still on the screen."""
    bad = [finding for finding in findings if finding.health is Health.BAD]
    _list([finding for finding in findings if finding not in bad])
    _list(bad)
    out.print(counted(len(bad), "problem") if bad else "no problems", style="bold")


def _list(findings: Sequence[Finding]) -> None:
    for finding in findings:
        mark = Text.from_markup(_MARKS[finding.health])
        print_words(out, Text.assemble(mark, f" {finding.name}: {finding.detail}"))

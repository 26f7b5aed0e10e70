"""The command ``doctor`` checks whether this machine is ready."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from skillwright.cli.faults import DONE, NO, exit_codes
from skillwright.cli.options import NO_OVERRIDES, AsJson, Overrides
from skillwright.cli.words import counted, make_console, print_words
from skillwright.config import RlConfig, RunConfig, is_rl_config, load_config, load_rl_config
from skillwright.config.readers import config_readers
from skillwright.core import ConfigError
from skillwright.jobs.run import Finding, Health
from skillwright.jobs.text import examine
from skillwright.jobs.weights import refuse_without_torch

out = make_console()
_MARKS = {Health.OK: "[green]ok  [/]", Health.NOTE: "[yellow]note[/]", Health.BAD: "[red]BAD [/]"}


_DEFAULTS = {
    "models": {
        "target": {"backend": "scripted", "model": "household"},
        "optimizer": {"backend": "scripted", "model": "analyst"},
    }
}
"""A configuration with models and an environment only."""


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
    """Check what could stop a run: Python, disk, extras, environments, keys, endpoints."""
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
        shown = settings or RunConfig.model_validate(_DEFAULTS)
        tables = [table for reader in config_readers() for table in reader.tables(shown)]
        out.print(*tables, "")
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _show(findings)
    bad = any(finding.health is Health.BAD for finding in findings)
    raise typer.Exit(NO if bad else DONE)


def _of_recipe(settings: RlConfig) -> list[Finding]:
    """Check the machine, and what a run of the recipe needs."""
    findings = asyncio.run(examine(Path(settings.run.root)))
    try:
        refuse_without_torch()
    except ConfigError as error:
        return [*findings, Finding("policy", Health.BAD, str(error))]
    # Imported here, because it imports torch.
    from skillwright.jobs.weights.preflight import examine_rl

    return [*findings, *asyncio.run(examine_rl(settings))]


def _show(findings: Sequence[Finding]) -> None:
    """Print findings, problems last, so that they stay on the screen."""
    bad = [finding for finding in findings if finding.health is Health.BAD]
    _list([finding for finding in findings if finding not in bad])
    _list(bad)
    out.print(counted(len(bad), "problem") if bad else "no problems", style="bold")


def _list(findings: Sequence[Finding]) -> None:
    for finding in findings:
        mark = Text.from_markup(_MARKS[finding.health])
        print_words(out, Text.assemble(mark, f" {finding.name}: {finding.detail}"))

"""The command ``doctor``: is this machine ready?"""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from skillwright.cli.faults import DONE, NO, exit_codes
from skillwright.jobs import Health, examine, load_config

out = Console()
_MARKS = {Health.OK: "[green]ok  [/]", Health.NOTE: "[yellow]note[/]", Health.BAD: "[red]BAD [/]"}


def doctor(
    config: Annotated[
        Path | None, typer.Argument(help="Also check what this configuration names.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Look for whatever would stop a run: Python, disk, extras, environments, keys, endpoints."""
    with exit_codes():
        settings = load_config(config) if config else None
        root = Path(settings.run.root if settings else "runs")
        findings = asyncio.run(examine(root, settings))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        for finding in findings:
            said = escape(f"{finding.name}: {finding.detail}")
            out.print(f"{_MARKS[finding.health]} {said}", highlight=False, soft_wrap=True)
    bad = any(finding.health is Health.BAD for finding in findings)
    raise typer.Exit(NO if bad else DONE)

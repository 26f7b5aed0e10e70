"""``skillwright estimate``: what a run will take, before anything is paid for."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from skillwright.cli.faults import exit_codes
from skillwright.cli.training import NO_OVERRIDES, AsJson, ConfigPath, Overrides
from skillwright.cli.words import make_console
from skillwright.jobs import load_config, read_initial_skill
from skillwright.jobs.estimate import Estimate, Stage, estimate
from skillwright.jobs.estimate_rl import RlEstimate, estimate_rl
from skillwright.jobs.rl import is_rl_config, load_rl_config

out = make_console()


def estimate_command(
    config: ConfigPath,
    overrides: Overrides = NO_OVERRIDES,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Turns of an episode, where you know better.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Expected calls, tokens and money per stage. Nothing is asked and nothing is played.

    Of the recipe of `skillwright rl`, episodes and calls.
    """
    with exit_codes():
        if is_rl_config(config):
            counted = estimate_rl(load_rl_config(config, overrides), turns)
            if as_json:
                typer.echo(json.dumps(counted.to_dict()))
            else:
                show_recipe(counted)
            return
        settings = load_config(config, overrides)
        found = asyncio.run(estimate(settings, read_initial_skill(settings), turns))
    over = found.over_budget(settings)
    if as_json:
        typer.echo(json.dumps(found.to_dict() | {"over_budget": over}))
        return
    show(found)
    if over:
        out.print(f"The run is {over}.", style="yellow", highlight=False)


def show(found: Estimate) -> None:
    """Print an estimate, with all that it rests on."""
    table = Table("stage", "asks")
    for heading in ("episodes", "calls", "tokens in", "tokens out", "USD"):
        table.add_column(heading, justify="right")
    for stage in found.stages:
        table.add_row(*_row(stage))
    table.add_section()
    *counts, money = _row(found.total)
    if found.total.cost_usd is None and found.known_cost_usd:
        money = f"at least {found.known_cost_usd:,.2f}"
    table.add_row(*counts, money, style="bold")
    out.print(table)
    _list("What it can prove:", [found.power])
    _list("Prices:", [mind.line() for mind in found.minds])
    measured = f"the first prompt has {found.opening_tokens:,} tokens (measured on "
    measured += f"{', '.join(found.measured)}, with the initial skill)"
    _list("It rests on:", [measured, *found.assumptions.lines()])


def show_recipe(found: RlEstimate) -> None:
    """Print an estimate of a run of the recipe, with all that it rests on."""
    table = Table("stage", "who")
    for heading in ("episodes", "calls"):
        table.add_column(heading, justify="right")
    for stage in found.stages:
        counts = (f"{count:,}" if count else "" for count in (stage.episodes, stage.calls))
        table.add_row(stage.name, stage.role, *counts)
    out.print(table)
    _list("Prices:", found.prices)
    _list("It rests on:", found.lines())


def _list(heading: str, lines: Sequence[str]) -> None:
    out.print(heading, *lines, sep="\n  ", highlight=False, soft_wrap=True)


def _row(stage: Stage) -> tuple[str, ...]:
    money = "unknown" if stage.cost_usd is None else f"{stage.cost_usd:,.2f}"
    counts = (stage.episodes, stage.calls, stage.input_tokens, stage.output_tokens)
    return (stage.name, stage.role, *(f"{count:,}" if count else "" for count in counts), money)

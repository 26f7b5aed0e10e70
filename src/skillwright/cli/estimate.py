"""``skillwright estimate``: what a run will take, before anything is paid for."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from skillwright.cli.faults import exit_codes
from skillwright.cli.training import (
    NO_OVERRIDES,
    AsJson,
    ConfigPath,
    Overrides,
    Split,
    by_our_name,
)
from skillwright.cli.words import make_console
from skillwright.config import is_rl_config, load_config, load_rl_config
from skillwright.core import ConfigError
from skillwright.jobs import EvalPlan, read_initial_skill
from skillwright.jobs.launch.estimate import Estimate, Stage, estimate, estimate_evaluation
from skillwright.jobs.rl.estimate import RlEstimate, estimate_rl

out = make_console()


def estimate_command(
    config: ConfigPath,
    overrides: Overrides = NO_OVERRIDES,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Turns of an episode, where you know better.")
    ] = None,
    split: Annotated[
        Split | None, typer.Option(help="Of an evaluation only: which tasks; else test.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Of an evaluation only: attempts per task; else 1.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Expected calls, tokens and money of a training per stage, and of an evaluation.

    Nothing is asked and nothing is played. Of the recipe of `skillwright rl`, episodes and calls.
    """
    with exit_codes():
        plan = EvalPlan(by_our_name(split or "test"), trials or 1)
        trains = split is None and trials is None
        recipe = is_rl_config(config)
        if recipe:
            _refuse_plan(trains)
            counted = estimate_rl(load_rl_config(config, overrides), turns)
        else:
            settings = load_config(config, overrides)
            skill = read_initial_skill(settings)
            evaluation = asyncio.run(estimate_evaluation(settings, skill, plan, turns))
            found = asyncio.run(estimate(settings, skill, turns)) if trains else evaluation
    if recipe:
        if as_json:
            typer.echo(json.dumps(counted.to_dict()))
        else:
            show_recipe(counted)
        return
    over = found.over_budget(settings)
    if as_json:
        told = {"evaluation": evaluation.to_dict()} if trains else {}
        typer.echo(json.dumps(found.to_dict() | {"over_budget": over} | told))
        return
    show(found, evaluation, plan)
    if over:
        out.print(f"The run is {over}.", style="yellow", highlight=False)


def _refuse_plan(trains: bool) -> None:
    if not trains:
        raise ConfigError(
            "--split and --trials are of an evaluation, and this file configures the recipe of "
            "`skillwright rl`; leave them out"
        )


def show(found: Estimate, evaluation: Estimate, plan: EvalPlan) -> None:
    """Print an estimate, with all that it rests on.

    Args:
        found: Of a training, or the evaluation itself.
        evaluation: Of an evaluation with the same configuration.
        plan: What that evaluates.
    """
    trains = found is not evaluation
    if trains:
        out.print(_table("A training (skillwright train)", found))
    often = "once" if plan.trials == 1 else f"{plan.trials} times"
    heading = f"An evaluation (skillwright eval): every {plan.split} task {often}"
    out.print(_table(heading, evaluation))
    if found.power:
        _list("What a training can prove:", [found.power])
    _list("Prices:", [mind.line() for mind in found.minds])
    measured = f"the first prompt has {found.opening_tokens:,} tokens (measured on "
    measured += f"{', '.join(found.measured)}, with the initial skill)"
    _list("It rests on:", [measured, *found.assumptions.lines(trains=trains)])


def _table(heading: str, found: Estimate) -> Table:
    table = Table("stage", "asks", title=heading, title_justify="left")
    for column in ("episodes", "calls", "tokens in", "tokens out", "USD"):
        table.add_column(column, justify="right")
    for stage in found.stages:
        table.add_row(*_row(stage))
    table.add_section()
    *counts, money = _row(found.total)
    if found.total.cost_usd is None and found.known_cost_usd:
        money = f"at least {found.known_cost_usd:,.2f}"
    table.add_row(*counts, money, style="bold")
    return table


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

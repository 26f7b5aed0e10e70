"""``skillwright estimate``: the expected cost of a run."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from skillwright.cli.faults import exit_codes
from skillwright.cli.options import (
    NO_OVERRIDES,
    AsJson,
    ConfigPath,
    Overrides,
    Split,
    by_our_name,
    print_result,
)
from skillwright.cli.words import make_console, make_table, print_words, short_count
from skillwright.config import is_rl_config, load_config, load_rl_config
from skillwright.core import ConfigError
from skillwright.jobs.run import Stage, Stages, read_initial_skill
from skillwright.jobs.text import Estimate, EvalPlan, estimate, estimate_evaluation, usual_trials
from skillwright.jobs.weights import RlEstimate, estimate_rl, supervised

out = make_console()


def estimate_command(
    config: ConfigPath,
    overrides: Overrides = NO_OVERRIDES,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Turns per episode for the estimate.")
    ] = None,
    split: Annotated[Split | None, typer.Option(help="Split of the evaluation.")] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Attempts per task of the evaluation.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate calls, tokens and money of a training and an evaluation.

    Nothing is asked and nothing is played.
    """
    with exit_codes():
        trains = split is None and trials is None
        if is_rl_config(config):
            _refuse_plan(trains)
            recipe = load_rl_config(config, overrides)
            expected = asyncio.run(estimate_rl(recipe, turns))
            shorter = supervised(recipe) if recipe.cold_start else None
            alone = asyncio.run(estimate_rl(shorter, turns)) if shorter else None
            over = expected.over_budget(recipe)
            sft = {"sft": alone.to_dict()} if alone else {}
            result = expected.to_dict() | {"over_budget": over} | sft
            show_it: Callable[[], None] = partial(show_recipe, expected, alone)
        else:
            settings = load_config(config, overrides)
            ours = by_our_name(split or "test")
            plan = EvalPlan(ours, trials or usual_trials(settings, ours))
            skill = read_initial_skill(settings)
            evaluation = asyncio.run(estimate_evaluation(settings, skill, plan, turns))
            found = asyncio.run(estimate(settings, skill, turns)) if trains else evaluation
            over = found.over_budget(settings)
            beside = {"evaluation": evaluation.to_dict()} if trains else {}
            result = found.to_dict() | {"over_budget": over} | beside
            show_it = partial(show, found, evaluation, plan)
    print_result(as_json, result, show_it)
    if over and not as_json:
        out.print(f"The run is {over}.", style="yellow")


def _refuse_plan(trains: bool) -> None:
    if not trains:
        raise ConfigError(
            "--split and --trials are of an evaluation, and this file configures the recipe of "
            "`skillwright rl`; leave them out"
        )


def show(found: Estimate, evaluation: Estimate, plan: EvalPlan) -> None:
    """Print an estimate and its assumptions."""
    trains = found is not evaluation
    if trains:
        table = _table("A training (skillwright train)", found)
        table.add_row("eval alone", *_total(evaluation)[1:])
        out.print(table)
    else:
        often = "once" if plan.trials == 1 else f"{plan.trials} times"
        heading = f"An evaluation (skillwright eval): every {plan.split} task {often}"
        out.print(_table(heading, evaluation))
    if found.power:
        _list("What a training can prove:", [found.power])
    _list("Prices:", [llm.line() for llm in found.llms])
    measured = f"the first prompt has {found.opening_tokens:,} tokens (measured on "
    measured += f"{', '.join(found.measured)}, with the initial skill)"
    has_user = any(stage.name == "simulated user" for stage in found.stages)
    assumed = found.assumptions.lines(trains=trains, has_user=has_user)
    _list("It rests on:", [measured, *assumed])


def _table(heading: str, found: Stages) -> Table:
    numbers = ("episodes", "calls", "tokens in", "tokens out", "USD")
    table = make_table(
        "stage", "asks", *numbers, right=numbers, whole=("asks", *numbers), title=heading
    )
    for stage in found.stages:
        table.add_row(*_row(stage))
    table.add_section()
    table.add_row(*_total(found), style="bold")
    return table


def _total(found: Stages) -> tuple[str, ...]:
    *counts, money = _row(found.total)
    if found.total.cost_usd is None and found.known_cost_usd:
        money = f"at least\n{found.known_cost_usd:,.2f}"
    return (*counts, money)


def show_recipe(found: RlEstimate, alone: RlEstimate | None) -> None:
    """Print an estimate of an RL run, of its cold start alone, and the assumptions."""
    out.print(_table("A training of weights (skillwright rl)", found))
    if alone is not None:
        out.print(_table("On demonstrations alone (skillwright sft)", alone))
    _list("Prices:", [llm.line() for llm in found.llms])
    if found.weights is not None:
        _list("Weights:", found.weights_lines())
    _list("It rests on:", found.lines())


def _list(heading: str, lines: Sequence[str]) -> None:
    print_words(out, "\n  ".join([heading, *lines]))


def _row(stage: Stage) -> tuple[str, ...]:
    money = "unknown" if stage.cost_usd is None else f"{stage.cost_usd:,.2f}"
    tokens = (short_count(count) for count in (stage.input_tokens, stage.output_tokens))
    counts = (f"{count:,}" if count else "" for count in (stage.episodes, stage.calls))
    return (stage.name, stage.role, *counts, *tokens, money)

"""The command that runs the recipe: ``skillwright rl``."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from skillwright.cli.faults import NO, err, exit_codes, say, say_finished
from skillwright.cli.live import display, make_report
from skillwright.cli.options import DEFAULT_ROOT, NO_OVERRIDES, AsJson, Overrides, Root
from skillwright.cli.rl_tables import RlTally, show_rl
from skillwright.cli.tables import show_causes, show_money, show_turns, why_no_score
from skillwright.cli.words import make_console, print_words
from skillwright.config import load_rl_config
from skillwright.core.jsonio import encode
from skillwright.core.waits import waiting
from skillwright.jobs.run import Cause, TurnEnds, priced_model, top_causes
from skillwright.jobs.weights import (
    TEST_EPISODES,
    RlKind,
    RlRun,
    begin_rl,
    coevolving,
    open_rl,
    refuse_without_torch,
    rl_has_scripted_models,
    run_rl,
    supervised,
)

if TYPE_CHECKING:
    from skillwright.jobs.weights.wiring import PolicyMaker

out = make_console()


def rl(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file of the recipe.")],
    overrides: Overrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Train a small policy with a skill bank: cold start, GRPO, evolution, final test."""
    with exit_codes():
        run, maker = asyncio.run(begin_rl(load_rl_config(config, overrides)))
    play(run, as_json, maker)


def sft(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file of the recipe.")],
    overrides: Overrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Train a policy on demonstrations alone, and compare it with its initial weights."""
    with exit_codes():
        settings = supervised(load_rl_config(config, overrides))
        run, maker = asyncio.run(begin_rl(settings))
    play(run, as_json, maker)


def coevolve(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file of the recipe.")],
    overrides: Overrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Train a skill bank and a policy in alternation; a step that loses is reverted."""
    with exit_codes():
        settings = coevolving(load_rl_config(config, overrides))
        run, maker = asyncio.run(begin_rl(settings))
    play(run, as_json, maker)


def internalize(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name.")],
    skill: Annotated[
        list[str] | None,
        typer.Option(help="An id, a category or a place; several times for several. Else all."),
    ] = None,
    root: Root = DEFAULT_ROOT,
    overrides: Overrides = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Distill skills into a run's released weights, and retire them if nothing is lost."""
    with exit_codes():
        refuse_without_torch()
        with waiting("loading torch"):
            from skillwright.jobs.weights.internalize import internalizing

        settings = internalizing(run, root, skill or (), overrides)
        begun, maker = asyncio.run(begin_rl(settings))
    play(begun, as_json, maker)


def resume_rl(run: str, root: Path, overrides: Sequence[str], as_json: bool) -> None:
    """Resume an RL run."""
    with exit_codes():
        opened = open_rl(run, root, overrides)
    if opened.state.finished:
        say_finished(opened.folder.path)
    play(opened, as_json)


def play(run: RlRun, as_json: bool, maker: "PolicyMaker | None" = None) -> None:
    """Run RL to its end, and show the result."""
    llms = [priced_model(role, llm) for role, llm in run.config.llms.items()]
    with run, exit_codes(run.resume_command):
        with display(err if as_json else out, llms, RlTally) as callback:
            report = asyncio.run(run_rl(run, callback, maker=maker, make_report=make_report))
        scripted = rl_has_scripted_models(run.config)
        causes = _causes(run)
        spent, turns = run.store.usage_by_purpose(), TurnEnds.read(run.store.turn_ends())
    if as_json:
        facts = {"run": str(run.folder.path), "scripted": scripted, "turns": turns.to_dict()}
        typer.echo(json.dumps(report.to_dict() | facts | {"causes": encode(causes)}))
    else:
        show_rl(out, report.state, report.iteration, scripted)
        show_turns(out, turns)
        show_causes(out, causes, str(run.folder.path))
        show_money(out, spent, llms)
        print_words(out, Text.assemble("run: ", (str(run.folder.path), "bold")))
    if why := report.state.refuted or why_no_score(report.test, "final", causes):
        say(f"The answer is no: {why}.", style="yellow")
        raise typer.Exit(NO)


def _causes(run: RlRun) -> list[Cause]:
    """Return why the selected weights did not succeed on the sealed test."""
    tested = [event.payload for event in run.store.events(RlKind.TEST)]
    keys = set(tested[-1].get(TEST_EPISODES, {}).get("final", ())) if tested else set()
    threshold = run.config.env.success_threshold
    return top_causes(run.store, threshold, lambda one: one.key in keys)

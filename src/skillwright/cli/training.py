"""Commands that run something: train, eval, demo, resume; and `config show`."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from skillwright.cli import tables
from skillwright.cli.faults import NO, err, exit_codes
from skillwright.cli.live import display
from skillwright.jobs import (
    EvalPlan,
    EvalSplit,
    Run,
    RunConfig,
    demo_file,
    dump_config,
    has_scripted_minds,
    load_config,
    open_run,
    preflight,
    read_initial_skill,
    run_evaluation,
    run_training,
    start_run,
)

ConfigPath = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="A YAML file, ours or SkillOpt's.")
]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: --set train.epochs=2"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
NO_OVERRIDES: list[str] = []

config_app = typer.Typer(help="Look at configurations.", no_args_is_help=True)
out = Console()


def add_to(app: typer.Typer) -> None:
    """Put the commands on an application."""
    for command in (train, evaluate, demo, resume):
        name = "eval" if command is evaluate else command.__name__
        app.command(name)(command)


def train(config: ConfigPath, overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """Train a skill document; ends with the best skill and its score on held-out tasks."""
    with exit_codes():
        run = _begin(load_config(config, overrides))
    _train(run, as_json)


def demo(overrides: Overrides = NO_OVERRIDES, as_json: AsJson = False) -> None:
    """Train on generated houses with scripted minds: offline, no key, no GPU, a few minutes."""
    with exit_codes(), demo_file() as path:
        run = _begin(load_config(path, overrides))
    _train(run, as_json)


def evaluate(
    config: ConfigPath,
    overrides: Overrides = NO_OVERRIDES,
    skill: Annotated[
        Path | None, typer.Option(help="The skill to evaluate; else the config's skill.init.")
    ] = None,
    split: Annotated[EvalSplit, typer.Option(help="Which tasks.")] = "test",
    trials: Annotated[int, typer.Option(min=1, help="Attempts per task.")] = 1,
    min_pass: Annotated[
        float, typer.Option(min=0, max=1, help="Exit with 1 below this success rate.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Measure a skill: success by family with intervals, and pass^k over several trials."""
    with exit_codes():
        settings = load_config(config, overrides)
        if skill is not None:
            named = settings.skill.model_copy(update={"init": str(skill)})
            settings = settings.model_copy(update={"skill": named})
        plan = EvalPlan(split, trials, min_pass)
        run = _begin(settings, plan)
    _evaluate(run, plan, as_json)


def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name.")],
    root: Annotated[str, typer.Option(help="The folder that holds runs.")] = "runs",
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was stopped; it takes the decisions that it would have taken."""
    with exit_codes():
        opened = open_run(run, root)
    with opened:
        with exit_codes(opened.go_on):
            asyncio.run(preflight(opened.config, opened.plan))
        if opened.plan is None:
            _train(opened, as_json)
        else:
            _evaluate(opened, opened.plan, as_json)


@config_app.command("show")
def show_config(config: ConfigPath, overrides: Overrides = NO_OVERRIDES) -> None:
    """Print the configuration as it is understood: bases merged, defaults filled in."""
    with exit_codes():
        typer.echo(dump_config(load_config(config, overrides)), nl=False)


def _begin(settings: RunConfig, plan: EvalPlan | None = None) -> Run:
    """Start a run; what can be known to be wrong is found before anything is written."""
    skill = read_initial_skill(settings)
    asyncio.run(preflight(settings, plan))
    return start_run(settings, skill, plan)


def _train(run: Run, as_json: bool) -> None:
    with run, exit_codes(run.go_on), display(err if as_json else out) as watcher:
        report = asyncio.run(run_training(run, watcher))
    if as_json:
        _echo(report.to_dict(), run)
    else:
        best = str(run.folder.best_skill_path)
        tables.show_training(out, report, best, _is_scripted(run))


def _evaluate(run: Run, plan: EvalPlan, as_json: bool) -> None:
    with run, exit_codes(run.go_on), display(err if as_json else out) as watcher:
        report = asyncio.run(run_evaluation(run, plan, watcher))
    if as_json:
        _echo(report.to_dict(), run)
    else:
        tables.show_evaluation(out, report, _is_scripted(run))
    if (report.table.overall.success_rate or 0.0) < plan.min_pass:
        raise typer.Exit(NO)


def _echo(report: dict[str, Any], run: Run) -> None:
    facts = {"run": str(run.folder.path), "scripted": _is_scripted(run)}
    typer.echo(json.dumps(report | facts))


def _is_scripted(run: Run) -> bool:
    return has_scripted_minds(run.config, run.plan)

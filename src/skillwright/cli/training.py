"""Commands that run something: train, eval, resume; and `config show`."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from skillwright.cli import tables
from skillwright.cli.check import play_check
from skillwright.cli.faults import NO, err, exit_codes, say, say_finished
from skillwright.cli.init import written_for
from skillwright.cli.live import Tally, display, make_report
from skillwright.cli.options import (
    DEFAULT_ROOT,
    NO_OVERRIDES,
    Adapter,
    AsJson,
    Compat,
    ConfigPath,
    Overrides,
    Root,
    Split,
    by_our_name,
)
from skillwright.cli.rl import resume_rl
from skillwright.cli.words import make_console, print_words
from skillwright.config import (
    RunConfig,
    dump_config,
    dump_rl_config,
    is_rl_config,
    load_config,
    load_rl_config,
)
from skillwright.core import ConfigError, skill_hash
from skillwright.core.jsonio import encode
from skillwright.jobs.inspect import (
    Study,
    find_study,
    is_finished,
    open_study,
    read_fork,
    run_study,
    start_study,
)
from skillwright.jobs.run import (
    Cause,
    TurnEnds,
    find_run,
    priced_models,
    read_initial_skill,
    top_causes,
)
from skillwright.jobs.text import (
    MOST_FAILURES,
    EvalPlan,
    Run,
    begin_run,
    has_scripted_models,
    open_run,
    past_events,
    preflight,
    read_check,
    run_evaluation,
    run_proof,
    run_training,
    usual_trials,
)
from skillwright.jobs.weights import is_rl_run

Env = Annotated[
    str | None,
    typer.Option("--env", metavar="NAME", help="The environment, in place of the file's env.name."),
]
Theirs = Annotated[
    list[str],
    typer.Option(
        "--cfg-options", metavar="KEY=VALUE ...", help="Change settings by SkillOpt's names."
    ),
]
Reuse = Annotated[
    list[str],
    typer.Option(
        "--reuse", metavar="RUN", help="Reuse another run's episodes for equal prompts and seeds."
    ),
]
_THEIR_OPTION = "--cfg-options"

app = typer.Typer(add_completion=False)
config_app = typer.Typer(help="Look at configurations.", no_args_is_help=True)
out = make_console()


class GreedyCommand(TyperCommand):
    """A command whose ``--cfg-options`` takes all settings that follow it, as SkillOpt's does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its settings."""
        spread: list[str] = []
        is_taking = False
        for word in args:
            if word == _THEIR_OPTION:
                is_taking = True
                continue
            is_taking = is_taking and not word.startswith("-") and "=" in word
            spread += [_THEIR_OPTION, word] if is_taking else [word]
        return super().parse_args(ctx, spread)


@app.command("train", cls=GreedyCommand)
def train(  # noqa: PLR0913 - each is an option
    config: ConfigPath,
    overrides: Overrides = NO_OVERRIDES,
    name: Annotated[
        str | None, typer.Option(help="The run's name; by default the file's (run.name).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use at most N train, val and test tasks each."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="USD", help="Stop at this cost; `resume` continues (budget.usd)."),
    ] = None,
    env: Env = None,
    adapter: Adapter = None,
    compat: Compat = None,
    reuse: Reuse = NO_OVERRIDES,
    theirs: Theirs = NO_OVERRIDES,
    skill: Annotated[
        Path | None,
        typer.Option(help="Initial skill: a file, or a folder with a SKILL.md (skill.init)."),
    ] = None,
    parity: Annotated[bool, typer.Option("--parity", help="Use SkillOpt's defaults.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Train with N seeds, and summarize.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a skill document; ends with the best skill and its score on held-out tasks."""
    with exit_codes():
        # First, so that settings by name override the options.
        chosen = [
            *(["run.parity=true"] if parity else []),
            *played(env, adapter, compat),
            *([] if name is None else [f"run.name={json.dumps(name)}"]),
            *([] if budget is None else [f"budget.usd={budget}"]),
        ]
        settings = load_config(config, [*chosen, *overrides], theirs)
        if limit is not None:
            words = [*chosen, *overrides, *limited(settings, limit)]
            settings = load_config(config, words, theirs)
        settings = _changed(settings, skill, reuse)
        if seeds is None:
            run = asyncio.run(begin_run(settings))
        else:
            text = read_initial_skill(settings)
            asyncio.run(preflight(settings))
            study = start_study(settings, text, seeds)
    if seeds is None:
        if (free := run.folder.name) != settings.run.name:
            say(f"there is a run {settings.run.name} already; this one is {free}.")
        play_training(run, as_json)
    else:
        _train_study(study, as_json)


@app.command("eval", cls=GreedyCommand)
def evaluate(  # noqa: PLR0913 - each is an option
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]", help="A YAML file; without one, the evals of --skill FOLDER."
        ),
    ] = None,
    overrides: Overrides = NO_OVERRIDES,
    env: Env = None,
    adapter: Adapter = None,
    compat: Compat = None,
    skill: Annotated[
        Path | None, typer.Option(help="The skill to evaluate, a file or folder; else skill.init.")
    ] = None,
    split: Annotated[Split, typer.Option(help="Which tasks; SkillOpt's names work.")] = "test",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Attempts per task: 1, or 2 to 5 for few evals of a skill."),
    ] = None,
    min_pass: Annotated[
        float, typer.Option(min=0, max=1, help="Exit with 1 below this success rate.")
    ] = 0.0,
    max_faults: Annotated[
        float,
        typer.Option(min=0, max=1, help="Exit with 1 above this share of episodes with a fault."),
    ] = MOST_FAILURES,
    reuse: Reuse = NO_OVERRIDES,
    theirs: Theirs = NO_OVERRIDES,
    as_json: AsJson = False,
) -> None:
    """Measure a skill: success by task type with intervals, and pass^k over several trials."""
    with exit_codes():
        words = [*played(env, adapter, compat), *overrides]
        with written_for(config, skill) as file:
            settings = load_config(file, words, theirs)
        settings = _changed(settings, skill, reuse)
        ours = by_our_name(split)
        plan = EvalPlan(ours, trials or usual_trials(settings, ours), min_pass, max_faults)
        run = asyncio.run(begin_run(settings, plan=plan))
    play_evaluation(run, plan, as_json)


@app.command("resume", cls=GreedyCommand)
def resume(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A folder of a run or study, or its name.")
    ],
    root: Root = DEFAULT_ROOT,
    overrides: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A larger budget: --set budget.usd=5"),
    ] = NO_OVERRIDES,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Test a finished run's current skill once more, for release."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Continue a stopped run or study; it ends as it would have without the stop."""
    if is_rl_run(run, root):
        with exit_codes():
            _refuse_proof(prove, "one of `skillwright rl`, which tests its release by itself")
        resume_rl(run, root, overrides, as_json)
        return
    with exit_codes():
        study = open_study(run, root, overrides) if find_study(run, root) else None
        _refuse_proof(prove and study is not None, "a study; name one of its runs")
        opened = open_run(run, root, overrides) if study is None else None
        trains = opened is None or (opened.plan is None and read_check(opened.store) is None)
        _refuse_proof(prove and not trains, "an evaluation, which releases nothing")
    if study is not None:
        _train_study(study, as_json)
    if opened is None:
        return
    with opened:
        _resume_text(opened, prove, as_json)


def _resume_text(opened: Run, prove: bool, as_json: bool) -> None:
    """Continue a training, an evaluation or a check."""
    if read_check(opened.store) is not None:
        play_check(opened, as_json)
        return
    if prove:
        play_training(opened, as_json, again=True)
        return
    if is_finished(opened):
        _show_past(opened, as_json)
    else:
        with exit_codes(opened.resume_command):
            asyncio.run(preflight(opened.config, opened.plan))
    if opened.plan is None:
        play_training(opened, as_json)
    else:
        play_evaluation(opened, opened.plan, as_json)


def _show_past(run: Run, as_json: bool) -> None:
    """Say that a run is finished, with the lines of its decisions."""
    say_finished(run.folder.path)
    if run.plan is None and not as_json:
        for event in past_events(run.config, run.store):
            for line in Tally(0.0).say(event):
                print_words(out, line, markup=True)


def _refuse_proof(wanted: bool, what: str) -> None:
    if wanted:
        raise ConfigError(f"--prove tests what a training ended with, and this run is {what}")


@config_app.command("show")
def show_config(config: ConfigPath, overrides: Overrides = NO_OVERRIDES) -> None:
    """Print the resolved configuration, with bases merged and defaults filled in."""
    with exit_codes():
        if is_rl_config(config):
            text = dump_rl_config(load_rl_config(config, overrides))
        else:
            text = dump_config(load_config(config, overrides))
    typer.echo(text, nl=False)


def played(env: str | None, adapter: str | None, compat: str | None) -> list[str]:
    """Return the settings of the options for the environment."""
    if env is not None and adapter is not None:
        raise ConfigError("--env and --adapter both say what is played; give one of them")
    name = adapter if env is None else env
    named = [] if name is None else [f"env.name={json.dumps(name)}"]
    return [*named, *([] if compat is None else [f"env.compat={compat}"])]


def limited(settings: RunConfig, most: int) -> list[str]:
    """Return the settings that leave at most ``most`` tasks of each split.

    Raises:
        ConfigError: The data has no setting for its number of train tasks.
    """
    data = settings.env.data
    if "train" not in type(data).model_fields:
        raise ConfigError(
            f"--limit cannot shorten env.data of kind {data.kind!r}; "
            "--set evaluation.val_tasks=N and --set evaluation.test_tasks=N can"
        )
    sizes = {split: getattr(data, split) or most for split in ("train", "val", "test")}
    return [f"env.data.{split}={min(size, most)}" for split, size in sizes.items()]


def _changed(settings: RunConfig, skill: Path | None, reuse: list[str]) -> RunConfig:
    """Return the settings with another skill, if one is named, and more runs to reuse."""
    paths = [str(find_run(run, settings.run.root).resolve()) for run in reuse]
    reused = {"reuse": [*settings.rollout.reuse, *paths]}
    changed: dict[str, Any] = {"rollout": settings.rollout.model_copy(update=reused)}
    if skill is not None:
        changed["skill"] = settings.skill.model_copy(update={"init": str(skill)})
    return settings.model_copy(update=changed)


def play_training(run: Run, as_json: bool, *, again: bool = False) -> None:
    """Train to the end of a run, or test its release once more, and show the outcome."""
    work = run_proof if again else run_training
    llms = priced_models(run.config)
    with run, exit_codes(run.resume_command):
        with display(err if as_json else out, llms) as callback:
            report = asyncio.run(work(run, callback, make_report=make_report))
        spent, scripted = run.store.usage_by_purpose(), _is_scripted(run)
        turns = TurnEnds.read(run.store.turn_ends())
        causes = _causes(run, "test", skill_hash(report.best_skill))
    if as_json:
        facts = {"turns": turns.to_dict(), "causes": encode(causes)}
        _echo({**report.to_dict(), **facts}, run, scripted)
    else:
        tables.show_turns(out, turns)
        tables.show_failed_calls(out, spent)
        tables.show_money(out, spent, llms)
        best = str(run.folder.best_skill_path)
        tables.show_training(out, report, run.short_name, best, causes, scripted=scripted)
    why = report.state.refuted or tables.why_no_score(report.test, "best", causes)
    if why:
        say(f"The answer is no: {why}.", style="yellow")
        raise typer.Exit(NO)


def _causes(run: Run, phase: str, skill: str) -> list[Cause]:
    """Return why the episodes of a skill in a phase did not succeed."""
    return top_causes(
        run.store,
        run.config.env.success_threshold,
        # With a bank, the version names document and bank.
        lambda one: one.phase == phase and one.skill_version.split("+")[0] == skill,
    )


def _train_study(study: Study, as_json: bool) -> None:
    console = err if as_json else out
    with study, exit_codes(study.resume_command):
        watch = partial(display, console)
        summary = asyncio.run(run_study(study, watch, make_report=make_report))
    if as_json:
        typer.echo(json.dumps(summary.to_dict()))
    else:
        tables.show_study(out, summary)


def play_evaluation(run: Run, plan: EvalPlan, as_json: bool) -> None:
    """Evaluate to the end of a run, and show the outcome."""
    llms = priced_models(run.config, trains=False)
    with run, exit_codes(run.resume_command):
        with display(err if as_json else out, llms) as callback:
            report = asyncio.run(run_evaluation(run, plan, callback, make_report=make_report))
        spent, scripted = run.store.usage_by_purpose(), _is_scripted(run)
        causes = _causes(run, plan.phase, report.skill_version)
        fork = read_fork(run.folder.path) if plan.fork else None
    if as_json:
        beside = {"fork": encode(plan.fork)} | fork.to_dict() if fork else {}
        _echo(report.to_dict() | {"causes": encode(causes)} | beside, run, scripted)
    elif fork is not None:
        tables.show_fork(out, fork, str(run.folder.path))
        tables.own_up(out, scripted)
        tables.show_money(out, spent, llms)
    else:
        tables.show_evaluation(out, report, scripted)
        tables.show_causes(out, causes, str(run.folder.path))
        tables.show_money(out, spent, llms)
    reasons = plan.why_not(report.table.overall)
    for reason in reasons:
        say(f"The answer is no: {reason}.", style="yellow")
    if report.table.overall.failures:
        say(f"Play the faults again with:  {run.resume_command}")
    if reasons:
        raise typer.Exit(NO)


def _echo(report: dict[str, Any], run: Run, scripted: bool) -> None:
    facts = {"run": str(run.folder.path), "scripted": scripted}
    typer.echo(json.dumps(report | facts))


def _is_scripted(run: Run) -> bool:
    return has_scripted_models(run.config, run.store, run.plan)

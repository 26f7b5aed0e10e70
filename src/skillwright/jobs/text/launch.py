"""Begin, open and play a training or an evaluation of a skill document."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.config import RunConfig, mode_of
from skillwright.config.load import dump_config, load_config, look_at_config
from skillwright.core import ConfigError, EpisodeResult
from skillwright.core.jsonio import decode
from skillwright.jobs.kinds import EVALUATED, MADE
from skillwright.jobs.listing import made_facts
from skillwright.jobs.run import Callback, MakeModel, refuse_all_but_budget
from skillwright.jobs.run.bank_source import keep_bank
from skillwright.jobs.run.launch import (
    MakeReport,
    OpenRun,
    find_run,
    keep_skill_file,
    known_secrets,
    make_run,
    read_initial_skill,
    refuse_redacted,
    refuse_unreadable,
    reopen,
)
from skillwright.jobs.run.tasks import is_adapter, refuse_unasked_data
from skillwright.jobs.run.tracking import Measures, Watcher, tracked_session
from skillwright.jobs.text.evaluate import EvalPlan, EvalReport, evaluate
from skillwright.jobs.text.fork import RECORDED
from skillwright.jobs.text.history import past_events
from skillwright.jobs.text.preflight import preflight
from skillwright.jobs.text.repeats import share_of_repeat
from skillwright.jobs.text.state import TrainState, restore
from skillwright.jobs.text.train import (
    TrainReport,
    finished_report,
    prove,
    release_version,
    train,
    why_not_again,
)
from skillwright.jobs.text.wiring import assemble, assemble_session
from skillwright.models import make_model
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME
from skillwright.textopt import refuse_long_skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(OpenRun):
    """A training or an evaluation that this process works on, until it is closed.

    Attributes:
        plan: The plan of an evaluation; ``None`` for a training.
    """

    config: RunConfig
    plan: EvalPlan | None = None


async def run_training(
    run: Run,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> TrainReport:
    """Train, from the beginning or from where the run stopped; see `train`.

    A finished run returns its report without tasks, models or requests.
    """
    finished = finished_report(run.config, run.store, run.folder)
    if finished is not None:
        return finished
    async with (
        _session(run, callback, make_report) as seen,
        assemble(run.config, run.store, seen, make) as parts,
    ):
        return await train(parts, run.folder)


async def run_proof(
    run: Run,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> TrainReport:
    """Test a finished training's release once more; raises as `prove`."""
    problem = why_not_again(restore(run.config, run.store))
    if problem:
        raise ConfigError(f"run {run.folder.name!r} has nothing to prove: {problem}")
    async with (
        _session(run, callback, make_report) as seen,
        assemble(run.config, run.store, seen, make) as parts,
    ):
        return await prove(parts, run.folder)


async def run_evaluation(
    run: Run,
    plan: EvalPlan,
    callback: Callback,
    make: MakeModel = make_model,
    make_report: MakeReport | None = None,
) -> EvalReport:
    """Evaluate the run's skill; raises as `evaluate`."""
    async with (
        _session(run, callback, make_report) as seen,
        assemble_session(run.config, run.store, seen, make, plan.fork) as parts,
    ):
        return await evaluate(parts, run.folder, plan)


async def begin_run(
    config: RunConfig, skill: str | None = None, plan: EvalPlan | None = None
) -> Run:
    """Check what a configuration names, and start a run of it; nothing is left after an error.

    Args:
        config: The run's configuration.
        skill: The initial skill, or the one to evaluate; by default the configuration's.
        plan: What an evaluation evaluates; ``None`` for a training.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelError: A model does not answer, or refuses the key.
        RunError: The folder cannot be made, or the disk is full.
    """
    text = read_initial_skill(config) if skill is None else skill
    if plan is None:
        refuse_long_skill(text)
    await preflight(config, plan)
    return start_run(config, text, plan)


def start_run(
    config: RunConfig,
    skill: str,
    plan: EvalPlan | None = None,
    recorded: EpisodeResult | None = None,
) -> Run:
    """Make the folder of a new run, and record its job. The configuration is not checked.

    Args:
        config: The run's configuration; a number is added to its name if that is taken.
        skill: The initial skill of a training, or the skill to evaluate.
        plan: What an evaluation evaluates; ``None`` for a training.
        recorded: The episode that a fork continues; the run stores a copy.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
        DataError: The environment or its data is not found.
    """
    refuse_unasked_data(config.env)
    # An adapter that imports from skillopt uses the run's models; any other uses its own.
    has_own_models = config.env.compat is None and is_adapter(config.env)

    def first(path: Path, store: RunStore) -> dict[str, Any]:
        store.add_skill_version(skill, origin="initial_skill", step=0)
        if recorded is not None:
            spec = replace(recorded.spec, phase=RECORDED, step=None)
            store.record_episode(replace(recorded, spec=spec), usage={})
        facts: dict[str, Any] = {"job": "eval", **asdict(plan)} if plan else {"job": "train"}
        keep_skill_file(config, path)
        facts |= mode_of(config).facts | keep_bank(config, path)
        if plan is None:
            facts |= share_of_repeat(config, path)
        return facts | {
            "adapter": has_own_models,
            "scripted": _is_scripted(config, plan, has_own_models),
            "two_levels": bool(config.ledger(1).shares),
        }

    folder, store = make_run(
        Path(config.run.root), config.run.name, dump_config(config), known_secrets(config), first
    )
    return Run(config=config, folder=folder, store=store, plan=plan)


def open_run(run: str | Path, root: str | Path = "runs", overrides: Sequence[str] = ()) -> Run:
    """Open a run to resume it.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.
        overrides: New budgets, such as ``budget.usd=5``; nothing else can change.

    Raises:
        RunError: There is no such run, another process works on it, or its store is damaged.
        ConfigError: Its configuration cannot be read, was edited, or lacks a secret.
    """
    path = find_run(run, root)
    refuse_all_but_budget(overrides)
    refuse_unreadable(path)
    config = load_config(path / CONFIG_NAME, overrides)
    refuse_redacted(config.env.config, path)
    folder, store = reopen(path, known_secrets(config))
    return Run(config=config, folder=folder, store=store, plan=read_plan(store, path))


def restore_version(path: Path, version: int) -> TrainState:
    """Make a version the released one of a finished training; see `release_version`.

    Raises:
        RunError: The run is not finished, is no training, or another process works on it.
    """
    config = look_at_config(path / CONFIG_NAME, RunConfig)
    folder, store = reopen(path, ())
    with ExitStack() as held:
        held.callback(folder.close)
        held.callback(store.close)
        return release_version(config, store, folder, version)


def read_plan(store: RunStore, path: Path) -> EvalPlan | None:
    """Return the plan of a stored evaluation; ``None`` for a training run."""
    facts = made_facts(store, path)
    return decode(EvalPlan, facts) if facts["job"] == "eval" else None


def _session(
    run: Run, callback: Callback, make_report: MakeReport | None
) -> AbstractAsyncContextManager[Watcher]:
    """Record a session, and have the run's trackers follow it after earlier decisions."""
    played = len(run.store.events(EVALUATED))  # a resumed evaluation is scored again
    return tracked_session(
        run.config.run.trackers,
        run.store,
        lambda named: Measures(named, run.store, played),
        callback,
        secrets=lambda: known_secrets(run.config),
        past=lambda: () if run.plan else past_events(run.config, run.store),
        make_report=make_report,
    )


def has_scripted_models(config: RunConfig, store: RunStore, plan: EvalPlan | None = None) -> bool:
    """Tell whether a scripted model takes part, which callers that show results must say.

    Args:
        config: The run's configuration.
        store: The run's store, which tells whether an adapter plays without ``models.target``.
        plan: The plan of an evaluation, which has no optimizer; ``None`` for a training.
    """
    has_own_models = any(event.payload.get("adapter", False) for event in store.events(MADE))
    return _is_scripted(config, plan, has_own_models)


def _is_scripted(config: RunConfig, plan: EvalPlan | None, has_own_models: bool) -> bool:
    """Return whether a model in use is scripted; an adapter may use its own, not the target."""
    llms = [] if plan else [config.models.optimizer]
    if not has_own_models:
        llms.append(config.models.target)
    return any(llm.is_scripted for llm in llms)

"""The one place where a configuration becomes objects."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillwright.config.run import RunConfig
from skillwright.core import ChatModel, ConfigError, Sampling
from skillwright.evaluation import Gate, Terms
from skillwright.jobs.run.bank_source import injected_bank
from skillwright.jobs.run.bench import (
    Bench,
    Sizes,
    TextBench,
    reused,
    shown_success,
    terms_of,
    text_bench,
)
from skillwright.jobs.run.memory import StoredCalls
from skillwright.jobs.run.models import MakeModel
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.resources import Resources, open_resources
from skillwright.jobs.run.tasks import is_adapter, refuse_untrainable
from skillwright.jobs.text.adapters.bench import adapter_bench
from skillwright.jobs.text.adapters.models import MakeRole
from skillwright.jobs.text.fork import Fork, forked
from skillwright.models import make_model
from skillwright.rollout import LocalEngine
from skillwright.rollout.compat import Role
from skillwright.runs import RunStore
from skillwright.textopt import (
    BudgetControl,
    LRScheduler,
    Optimizer,
    RankFallback,
    StepSettings,
    UpdateMode,
    build_scheduler,
)

OPTIMIZER_TOKENS = 16_384
"""Space for an optimizer's answer where the configuration does not say; proposals are long."""


@dataclass(frozen=True, slots=True)
class Session:
    """What it takes to play and score episodes.

    Attributes:
        config: What the parts were made from.
        store: The run's store.
        bench: Plays, whatever is played.
        target_identity: Who acts.
        callback: Receives the events.
    """

    config: RunConfig
    store: RunStore
    bench: Bench
    target_identity: str
    callback: Callback


@dataclass(frozen=True, slots=True)
class Assembly(Session):
    """The parts of a training run: those that play, and those that learn and decide.

    Attributes:
        calls: The optimizer's model, with a memory.
        optimizer: Who reads and proposes, through ``calls``.
        settings: How proposals are made.
        gate: Who decides.
        terms: What the gate has to know of the run.
        schedule: The edit budget by step.
        steps_per_epoch: Steps in an epoch.
    """

    calls: StoredCalls
    optimizer: Optimizer
    settings: StepSettings
    gate: Gate
    terms: Terms
    schedule: LRScheduler
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """Steps in the whole run."""
        return self.config.train.epochs * self.steps_per_epoch


@asynccontextmanager
async def assemble_session(
    config: RunConfig,
    store: RunStore,
    callback: Callback,
    make: MakeModel = make_model,
    fork: Fork | None = None,
) -> AsyncIterator[Session]:
    """Make the parts of an evaluation; what they hold open is closed at the end.

    With ``fork`` it plays the one episode that it continues, and not the tasks of the data set.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    if fork is not None:  # one episode, continued from what is stored here
        local = config.rollout.model_copy(update={"engine": "local"})
        config = config.model_copy(update={"rollout": local})
    async with open_resources(config, store, callback, make) as parts:
        parts.seen.refuses_unfit = True
        target = parts.model(config.models.target)

        def model_of(role: Role) -> ChatModel:
            return target if role == "target" else parts.model(config.models.optimizer)

        async with _bench(config, store, parts, model_of, forgets_failures=True) as bench:
            if fork is not None:
                bench = _forked(bench, store, fork)
            yield Session(config, store, bench, bench.target_identity, callback)


def _forked(bench: Bench, store: RunStore, fork: Fork) -> Bench:
    if isinstance(bench, TextBench) and isinstance(bench.engine, LocalEngine):
        return forked(bench, bench.engine, store, fork)
    raise ConfigError("an adapter plays by itself, so its episodes cannot be continued")


@asynccontextmanager
async def assemble(
    config: RunConfig, store: RunStore, callback: Callback, make: MakeModel = make_model
) -> AsyncIterator[Assembly]:
    """Make the parts of a training run; what they hold open is closed at the end.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    async with open_resources(config, store, callback, make) as parts:
        target, llm = parts.model(config.models.target), parts.model(config.models.optimizer)
        llms: Mapping[Role, ChatModel] = {"target": target, "optimizer": llm}
        play = _bench(config, store, parts, llms.__getitem__)
        bench = await parts.held.enter_async_context(play)
        calls = parts.calls(llm)
        optimizer = Optimizer(calls, sampling=_optimizer_sampling(config))
        settings = step_settings(config)
        bench.bind(optimizer, settings)
        steps_per_epoch = config.train.steps_per_epoch(bench.sizes.train)
        yield Assembly(
            config=config,
            store=store,
            bench=bench,
            target_identity=bench.target_identity,
            callback=callback,
            calls=calls,
            optimizer=optimizer,
            settings=settings,
            gate=config.evaluation.gate,
            terms=terms_of(config),
            schedule=build_scheduler(
                config.optimizer.lr_scheduler,
                max_lr=config.optimizer.learning_rate,
                min_lr=config.optimizer.min_learning_rate,
                total_steps=config.train.epochs * steps_per_epoch,
            ),
            steps_per_epoch=steps_per_epoch,
        )


def step_settings(config: RunConfig) -> StepSettings:
    """Return how a configuration wants proposals to be made."""
    gradient, optimizer = config.gradient, config.optimizer
    is_initial = gradient.analyst_budget == "initial"
    return StepSettings.of(
        gradient,
        optimizer,
        success_threshold=shown_success(config),
        analyst_budget=optimizer.learning_rate if is_initial else None,
        update_mode=UpdateMode(optimizer.skill_update_mode),
        budget_control=BudgetControl(optimizer.lr_control_mode),
        rank_fallback=RankFallback(optimizer.rank_fallback),
    )


@asynccontextmanager
async def _bench(
    config: RunConfig,
    store: RunStore,
    parts: Resources,
    model_of: MakeRole,
    *,
    forgets_failures: bool = False,
) -> AsyncIterator[Bench]:
    """Make what plays: an adapter where ``env.name`` names one, else our own environments."""
    if is_adapter(config.env):
        play = adapter_bench(config, store, parts, model_of, forgets_failures=forgets_failures)
        async with play as bench:
            yield bench
        return
    with injected_bank(config, store) as bank, reused(config) as earlier:
        target = model_of("target")
        ours = text_bench(config, store, parts.seen, target, parts.budget, bank, earlier)
        ours.engine = parts.placement.place(ours.engine, config.models.target)
        yield ours


def _optimizer_sampling(config: RunConfig) -> Sampling:
    given = getattr(config.models.optimizer, "max_tokens", None)
    return Sampling(max_tokens=given or OPTIMIZER_TOKENS)


# What is known of a training run before it is played: how much it plays, whether in vain.


def refuse_hopeless_gate(config: RunConfig, train_tasks: int, val_tasks: int) -> None:
    """Refuse a gate that no candidate could ever pass, before a rollout is paid for.

    The configuration does the same for generated games, whose number it knows.

    Raises:
        ConfigError: The gate is hopeless, or there is nothing to train on or to decide by.
    """
    refuse_untrainable(train_tasks, val_tasks)
    problem = config.why_hopeless(train_tasks, val_tasks)
    if problem:
        raise ConfigError(f"{problem}. Add val tasks, or use evaluation.gate.kind 'strict'")


def expected_episodes(config: RunConfig, sizes: Sizes, *, starts_blank: bool) -> int:
    """Return how many episodes a training run is expected to ask for, those that it reuses too.

    It counts no candidate as skipped, and what a gate with several looks takes on average; an
    epoch update that wants pairs of a kind may ask for more.
    """
    evaluation, epochs = config.evaluation, config.train.epochs
    val, test = sizes.val or 0, sizes.test or 0
    gate = evaluation.gate
    judged = gate.expected_rollouts(val) * config.decisions(sizes.train)
    if gate.release is not None:
        judged += gate.release.expected_rollouts(val)
    looks = epochs - 1 if config.optimizer.updates_epoch else 0
    compared = 2 * min(config.optimizer.slow_update_samples, sizes.train) * looks
    tested = test * skills_tested(config, starts_blank=starts_blank) if evaluation.test else 0
    confirmed = skills_confirmed(config, starts_blank=starts_blank) * evaluation.confirm_tasks
    rollouts = epochs * trained_on_in_an_epoch(config, sizes.train)
    return val + rollouts + judged + compared + tested + confirmed


def skills_confirmed(config: RunConfig, *, starts_blank: bool) -> int:
    """Return how many skills play the confirmation tasks: what was learned, and its baselines."""
    return 2 + (config.evaluation.empty_baseline and not starts_blank)


def skills_tested(config: RunConfig, *, starts_blank: bool) -> int:
    """Return how many skills play the test tasks."""
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    return confirmed + config.parts_skills + config.evaluation.placebo


def trained_on_in_an_epoch(config: RunConfig, train_tasks: int) -> int:
    """Return an epoch's rollouts: every task once, and micro-batches left empty are refilled."""
    size = config.train.batch_size
    count = config.train.steps_per_epoch(train_tasks) * config.train.accumulation
    refilled = count - -(-train_tasks // size)
    return train_tasks + refilled * min(size, train_tasks)

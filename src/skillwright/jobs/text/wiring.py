"""Make the parts of a training or an evaluation from its configuration."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from skillwright.config.run import RunConfig
from skillwright.core import ChatModel, ConfigError, Sampling
from skillwright.evaluation import Gate
from skillwright.jobs.run import Budget, Callback, StoredCalls
from skillwright.jobs.run.bank_source import injected_bank
from skillwright.jobs.run.bench import Bench, Sizes, TextBench, shown_success, text_bench
from skillwright.jobs.run.resources import MakeModel, Resources, open_resources
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
    EditLimits,
    LRScheduler,
    Optimizer,
    RankFallback,
    StepSettings,
    UpdateMode,
    build_scheduler,
)

OPTIMIZER_TOKENS = 16_384
"""Tokens of an optimizer's answer by default; proposals are long."""

_LINE_DRAWS = 60


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of an evaluation; ``bench`` plays and scores its episodes."""

    config: RunConfig
    store: RunStore
    bench: Bench
    callback: Callback


@dataclass(frozen=True, slots=True)
class TrainParts(RunParts):
    """The parts of a training.

    Attributes:
        calls: The optimizer's model; its answers are stored.
        optimizer: Reads episodes and proposes edits, through ``calls``.
        settings: How edits are proposed.
        schedule: The edit budget by step.
        steps_per_epoch: Steps in an epoch.
        budget: What the run may spend.
    """

    calls: StoredCalls
    optimizer: Optimizer
    settings: StepSettings
    schedule: LRScheduler
    steps_per_epoch: int
    budget: Budget

    @property
    def gate(self) -> Gate:
        """The gate that judges candidates."""
        return self.config.evaluation.gate

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
) -> AsyncIterator[RunParts]:
    """Make the parts of an evaluation, and close them at the end.

    With ``fork``, its only task is that of the episode that it continues.

    Raises:
        UsageError: A file, environment, task or key of the configuration is missing or wrong.
    """
    if fork is not None:  # only this store holds the episode to continue
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
            yield RunParts(config, store, bench, callback)


def _forked(bench: Bench, store: RunStore, fork: Fork) -> Bench:
    if isinstance(bench, TextBench) and isinstance(bench.engine, LocalEngine):
        return forked(bench, bench.engine, store, fork)
    raise ConfigError("an adapter plays by itself, so its episodes cannot be continued")


@asynccontextmanager
async def assemble(
    config: RunConfig, store: RunStore, callback: Callback, make: MakeModel = make_model
) -> AsyncIterator[TrainParts]:
    """Make the parts of a training, and close them at the end.

    Raises:
        UsageError: A file, environment, task or key of the configuration is missing or wrong.
    """
    async with open_resources(config, store, callback, make) as parts:
        target, llm = parts.model(config.models.target), parts.model(config.models.optimizer)
        llms: Mapping[Role, ChatModel] = {"target": target, "optimizer": llm}
        play = _bench(config, store, parts, llms.__getitem__)
        bench = await parts.held.enter_async_context(play)
        calls = parts.calls(llm)
        optimizer = Optimizer(
            calls,
            sampling=_optimizer_sampling(config),
            as_written=config.optimizer.replies_as_written,
        )
        settings = step_settings(config)
        bench.bind(optimizer, settings)
        steps_per_epoch = config.train.steps_per_epoch(bench.sizes.train)
        yield TrainParts(
            config=config,
            store=store,
            bench=bench,
            callback=callback,
            calls=calls,
            optimizer=optimizer,
            settings=settings,
            schedule=build_scheduler(
                config.optimizer.lr_scheduler,
                max_lr=config.optimizer.learning_rate,
                min_lr=config.optimizer.min_learning_rate,
                total_steps=config.train.epochs * steps_per_epoch,
            ),
            steps_per_epoch=steps_per_epoch,
            budget=parts.budget,
        )


def step_settings(config: RunConfig) -> StepSettings:
    """Return how edits are proposed, by a configuration."""
    gradient, optimizer = config.gradient, config.optimizer
    is_initial = gradient.analyst_budget == "initial"
    return StepSettings.of(
        gradient,
        optimizer,
        success_threshold=shown_success(config),
        limits=EditLimits(as_written=optimizer.replies_as_written),
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
    """Make the bench of an adapter if ``env.name`` names one, else of an environment."""
    if is_adapter(config.env):
        play = adapter_bench(config, store, parts, model_of, forgets_failures=forgets_failures)
        async with play as bench:
            yield bench
        return
    target = model_of("target")
    with (
        injected_bank(config, store) as bank,
        text_bench(config, store, parts, target, bank) as ours,
    ):
        yield ours


def _optimizer_sampling(config: RunConfig) -> Sampling:
    given = getattr(config.models.optimizer, "max_tokens", None)
    return Sampling(max_tokens=given or OPTIMIZER_TOKENS)


# Numbers of episodes, known before a training begins.


def refuse_hopeless_gate(
    config: RunConfig, train_tasks: int, val_tasks: int, clusters: Mapping[str, str]
) -> None:
    """Refuse a gate that no candidate could ever pass, before a rollout is paid for.

    Args:
        config: The run.
        train_tasks: Number of train tasks.
        val_tasks: Number of val tasks.
        clusters: Cluster by id of those val tasks that are in one.

    Raises:
        ConfigError: The gate is hopeless, or there are no train or val tasks.
    """
    refuse_untrainable(train_tasks, val_tasks)
    if problem := config.why_hopeless(train_tasks, val_tasks, clusters):
        raise ConfigError(f"{problem}. Add val tasks, or use evaluation.gate.kind 'strict'")


def expected_episodes(config: RunConfig, sizes: Sizes, *, starts_blank: bool) -> int:
    """Return the episodes that a training is expected to need ones included.

    No candidate is counted as skipped, a gate with several looks by its average, and an epoch
    update without the episodes that it plays to find pairs of a kind.
    """
    evaluation, epochs = config.evaluation, config.train.epochs
    val, test = sizes.val or 0, sizes.test or 0
    gate = evaluation.gate
    judged = gate.expected_rollouts(val) * config.decisions(sizes.train)
    if gate.release is not None:
        judged += gate.release.expected_rollouts(val) + expected_line_draws(config, val)
    looks = epochs - 1 if config.optimizer.updates_epoch else 0
    compared = 2 * min(config.optimizer.slow_update_samples, sizes.train) * looks
    tested = test * skills_tested(config, starts_blank=starts_blank) if evaluation.test else 0
    confirmed = skills_confirmed(config, starts_blank=starts_blank) * evaluation.confirm_tasks
    rollouts = epochs * trained_on_in_an_epoch(config, sizes.train)
    return val + rollouts + judged + compared + tested + confirmed


def expected_line_draws(config: RunConfig, val: int) -> int:
    """Return the rollouts that judge the lines of a skill before its release test.

    Simulated runs whose lines came in together take 55 to 79.
    """
    has_lines = config.evaluation.gate.believes and not is_adapter(config.env)
    return min(_LINE_DRAWS, 2 * val) if has_lines else 0


def skills_confirmed(config: RunConfig, *, starts_blank: bool) -> int:
    """Return the number of skills that play the confirmation tasks, baselines included."""
    return 2 + (config.evaluation.empty_baseline and not starts_blank)


def skills_tested(config: RunConfig, *, starts_blank: bool) -> int:
    """Return the number of skills that play the test tasks, baselines included."""
    confirmed = skills_confirmed(config, starts_blank=starts_blank)
    return confirmed + config.current_may_differ_from_best + config.evaluation.placebo


def trained_on_in_an_epoch(config: RunConfig, train_tasks: int) -> int:
    """Return the rollouts of an epoch: every task once, and refills of empty micro-batches."""
    size = config.train.batch_size
    count = config.train.steps_per_epoch(train_tasks) * config.train.accumulation
    refilled = count - -(-train_tasks // size)
    return train_tasks + refilled * min(size, train_tasks)

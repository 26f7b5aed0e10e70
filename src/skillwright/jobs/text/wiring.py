"""The one place where a configuration becomes objects."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillwright.config.rl import RlConfig
from skillwright.config.run import RunConfig, SkillAwareSection
from skillwright.core import ChatModel, ConfigError, PlainSkill, Sampling
from skillwright.core.jsonio import read_text
from skillwright.evaluation import Gate, Terms
from skillwright.jobs.run.bank_source import InjectedBank, injected_bank
from skillwright.jobs.run.bench import Bench, Longitudinal, Sizes, TextBench
from skillwright.jobs.run.memory import EngineEvents, StoredCalls, StoredEpisodes
from skillwright.jobs.run.money import Budget
from skillwright.jobs.run.opened import MakeModel, Opened, make_engine, opened
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.tasks import is_adapter, make_splits, refuse_untrainable
from skillwright.jobs.text.adapters.bench import adapter_bench
from skillwright.jobs.text.adapters.models import MakeRole
from skillwright.jobs.text.forking import Fork, forked
from skillwright.models import agent_of, make_model
from skillwright.plugins.skillopt.session import Role
from skillwright.rollout import LocalEngine
from skillwright.runs import RunFolder, RunStore
from skillwright.textopt import (
    AppendixSource,
    BudgetControl,
    LRScheduler,
    Optimizer,
    PairPolicy,
    RankFallback,
    SkillAware,
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
    async with opened(config, store, callback, make) as parts:
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
    async with opened(config, store, callback, make) as parts:
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
    return StepSettings(
        minibatch_size=gradient.minibatch_size,
        merge_batch_size=gradient.merge_batch_size,
        failure_only=gradient.failure_only,
        success_threshold=_shown_success(config),
        analyst_workers=gradient.analyst_workers,
        analyst_budget=optimizer.learning_rate if is_initial else None,
        update_mode=UpdateMode(optimizer.skill_update_mode),
        rewrite_max_tokens=optimizer.rewrite_max_tokens,
        budget_control=BudgetControl(optimizer.lr_control_mode),
        none_means_fixed=optimizer.none_means_fixed,
        rank_fallback=RankFallback(optimizer.rank_fallback),
        skill_aware=_skill_aware(optimizer.skill_aware),
        repair_anchors=optimizer.repair_anchors,
        insert_after_fallback=optimizer.insert_after_fallback,
    )


def _skill_aware(aware: SkillAwareSection | None) -> SkillAware | None:
    if aware is None:
        return None
    source = AppendixSource(aware.appendix_source)
    return SkillAware(source, aware.consolidate_threshold, aware.gated)


def _shown_success(config: RunConfig) -> float:
    """Return the reward from which the optimizer is shown a success."""
    return config.gradient.success_threshold or config.env.success_threshold


@asynccontextmanager
async def _bench(
    config: RunConfig,
    store: RunStore,
    parts: Opened,
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
        ours.engine = parts.elsewhere.placed(ours.engine, config.models.target)
        yield ours


def text_bench(
    config: RunConfig,
    store: RunStore,
    seen: EngineEvents,
    target: ChatModel,
    budget: Budget,
    bank: InjectedBank | None,
    earlier: Sequence[RunStore] = (),
) -> TextBench:
    """Return the bench of our own environments."""
    agent = agent_of(target)
    settle = bank.ledger.settle if bank else lambda: None
    recorder = StoredEpisodes(store, agent.identity, settle, earlier)
    mode = config.rollout.mode
    engine = make_engine(config, agent, recorder, seen, budget.permit, mode=mode)
    pairs = Longitudinal(
        wanted=config.optimizer.slow_update_samples,
        policy=PairPolicy(config.optimizer.longitudinal_pair_policy),
        success_threshold=_shown_success(config),
    )
    return TextBench(
        engine,
        make_splits(config),
        config.run.seed,
        pairs,
        seen.callback,
        target.identity,
        bank.tell if bank else PlainSkill,
    )


@contextmanager
def reused(config: RunConfig) -> Iterator[list[RunStore]]:
    """Open the stores of the runs whose episodes are used again, to look only.

    One that was there when the run began, and is gone when it is resumed, is passed over.
    """
    with ExitStack() as held:
        paths = [Path(path) for path in config.rollout.reuse if Path(path).exists()]
        folders = [RunFolder.look(path) for path in paths]
        yield [
            held.enter_context(RunStore.open(folder.store_path, read_only=True))
            for folder in folders
        ]


def _optimizer_sampling(config: RunConfig) -> Sampling:
    given = getattr(config.models.optimizer, "max_tokens", None)
    return Sampling(max_tokens=given or OPTIMIZER_TOKENS)


def terms_of(config: RunConfig | RlConfig) -> Terms:
    """Return what a gate has to know of a run."""
    return Terms(config.env.success_threshold, config.run.seed)


def read_initial_skill(config: RunConfig) -> str:
    """Return the text that training begins with; a blank ``skill.init`` is a blank skill.

    It is played and kept byte for byte, byte order mark and line breaks included; the optimizer
    reads and edits it with plain line breaks.

    Raises:
        DataError: The file is missing, or is not UTF-8.
    """
    path = config.skill.init
    return read_text(Path(path), "skill") if path else ""


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

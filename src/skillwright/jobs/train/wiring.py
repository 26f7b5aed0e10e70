"""The one place where a configuration becomes objects."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skillwright.config.env import EnvSection
from skillwright.config.learning import SkillAwareSection
from skillwright.config.run import RunConfig
from skillwright.core import ChatModel, ConfigError, PlainSkill, Sampling, Task
from skillwright.core.jsonio import read_text
from skillwright.envs import TextEnv, spec
from skillwright.evaluation import Gate, Terms
from skillwright.integrations.skillopt_session import Role
from skillwright.jobs.adapters.bench import AdapterBench
from skillwright.jobs.adapters.models import MakeMind, bound_models, set_up_within
from skillwright.jobs.parts.adapter_load import find_adapter
from skillwright.jobs.parts.bank_source import ToldBank, refuse_bank, told_bank
from skillwright.jobs.parts.bench import Bench
from skillwright.jobs.parts.memory import EngineEvents, StoredCalls, StoredEpisodes
from skillwright.jobs.parts.money import Budget
from skillwright.jobs.parts.opened import MakeModel, opened_mind
from skillwright.jobs.parts.progress import Watcher
from skillwright.jobs.parts.tasks import make_splits
from skillwright.jobs.parts.tau_report import env_facts
from skillwright.jobs.parts.text_bench import Longitudinal, TextBench
from skillwright.models import HttpClient, agent_of, make_model
from skillwright.rollout import Limits, LocalEngine, MakeEnv, PromptStyle
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
"""Room for an optimiser's answer where the configuration does not say; proposals are long."""


@dataclass(frozen=True, slots=True)
class Arena:
    """What it takes to play and score episodes.

    Attributes:
        config: What the parts were made from.
        store: The run's store.
        bench: Plays, whatever is played.
        target_identity: Who acts.
        watcher: Sees what happens.
    """

    config: RunConfig
    store: RunStore
    bench: Bench
    target_identity: str
    watcher: Watcher


@dataclass(frozen=True, slots=True)
class Assembly(Arena):
    """The parts of a training run: those that play, and those that learn and decide.

    Attributes:
        calls: The optimiser's model, with a memory.
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
async def assemble_arena(
    config: RunConfig, store: RunStore, watcher: Watcher, make: MakeModel = make_model
) -> AsyncIterator[Arena]:
    """Make the parts of an evaluation; what they hold open is closed at the end.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    async with HttpClient() as client, AsyncExitStack() as held:
        budget = Budget(config.budget, store)
        seen = _seen(watcher, budget, client)
        seen.refuses_unfit = True
        target = held.enter_context(
            opened_mind(config.models.target, client, make, store, config.env)
        )

        def mind_of(role: Role) -> ChatModel:
            other = partial(opened_mind, config.models.optimizer, client, make, store, config.env)
            return target if role == "target" else held.enter_context(other())

        play = _bench(config, store, seen, mind_of, budget, forgets_failures=True)
        async with play as bench:
            yield Arena(config, store, bench, _who_acts(bench, target), watcher)


@asynccontextmanager
async def assemble(
    config: RunConfig, store: RunStore, watcher: Watcher, make: MakeModel = make_model
) -> AsyncIterator[Assembly]:
    """Make the parts of a training run; what they hold open is closed at the end.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    async with HttpClient() as client, AsyncExitStack() as held:
        budget = Budget(config.budget, store)
        target = held.enter_context(
            opened_mind(config.models.target, client, make, store, config.env)
        )
        mind = held.enter_context(
            opened_mind(config.models.optimizer, client, make, store, config.env)
        )
        seen = _seen(watcher, budget, client)
        minds: Mapping[Role, ChatModel] = {"target": target, "optimizer": mind}
        play = _bench(config, store, seen, minds.__getitem__, budget)
        bench = await held.enter_async_context(play)
        calls = StoredCalls(mind, store, watcher, permit=partial(budget.permit, "call"))
        optimizer = Optimizer(calls, sampling=_optimizer_sampling(config))
        settings = step_settings(config)
        if isinstance(bench, AdapterBench):
            bench.bind(optimizer, settings)
        steps_per_epoch = config.train.steps_per_epoch(bench.sizes.train)
        yield Assembly(
            config=config,
            store=store,
            bench=bench,
            target_identity=_who_acts(bench, target),
            watcher=watcher,
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


def _who_acts(bench: Bench, target: ChatModel) -> str:
    plays_itself = isinstance(bench, AdapterBench) and bench.player.session is None
    return "the adapter plays" if plays_itself else target.identity


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
    """Return the reward from which the optimiser is shown a success."""
    return config.gradient.success_threshold or config.env.success_threshold


def _seen(watcher: Watcher, budget: Budget, client: HttpClient) -> EngineEvents:
    return EngineEvents(watcher, budget.note, lambda: client.limits.in_flight)


@asynccontextmanager
async def _bench(
    config: RunConfig,
    store: RunStore,
    seen: EngineEvents,
    mind_of: MakeMind,
    budget: Budget,
    *,
    forgets_failures: bool = False,
) -> AsyncIterator[Bench]:
    """Make what plays: an adapter where ``env.name`` names one, else our own environments."""
    if find_adapter(config.env) is None:
        with told_bank(config, store) as told, reused(config) as earlier:
            yield text_bench(config, store, seen, mind_of("target"), budget, told, earlier)
        return
    refuse_bank(config)
    if config.rollout.reuse:
        raise ConfigError(
            "rollout.reuse: what an EnvAdapter rolled out in another run cannot be used again; "
            "leave it out"
        )
    watcher = seen.watcher
    with bound_models(config, mind_of, store, watcher, budget) as session:
        with set_up_within(session):
            bench = await AdapterBench.open(
                config, store, watcher, forgets_failures=forgets_failures
            )
        bench.player.permit, bench.player.session = budget.permit, session
        try:
            yield bench
        finally:
            bench.close()


def text_bench(
    config: RunConfig,
    store: RunStore,
    seen: EngineEvents,
    target: ChatModel,
    budget: Budget,
    told: ToldBank | None,
    earlier: Sequence[RunStore] = (),
) -> TextBench:
    """Return the bench of our own environments.

    Args:
        config: What is played, and how.
        store: Remembers what was played.
        seen: Is told what happens.
        target: Who acts.
        budget: Gives permits.
        told: The bank that is told below every document; ``None`` tells documents alone.
        earlier: Stores of other runs whose episodes are used again.

    Raises:
        UsageError: Environment or tasks are missing or wrong.
    """
    agent = agent_of(target)
    settle = told.ledger.settle if told else lambda: None
    engine = LocalEngine(
        agent,
        make_env(config.env),
        limits=Limits(
            max_turns=config.env.max_turns,
            episode_timeout_s=config.rollout.episode_timeout_s,
            max_concurrent=config.rollout.max_concurrent,
            retries=config.rollout.retries,
            give_up_after=config.rollout.give_up_after,
            max_failure_share=config.rollout.max_failure_share,
        ),
        prompt=PromptStyle(history_turns=config.rollout.history_turns),
        recorder=StoredEpisodes(store, agent.identity, settle, earlier),
        mode=config.rollout.mode,
        env_identity=env_identity(config.env),
        observer=seen,
        permit=budget.permit,
    )
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
        seen.watcher,
        told.tell if told else PlainSkill,
    )


@contextmanager
def reused(config: RunConfig) -> Iterator[list[RunStore]]:
    """Open the stores of the runs whose episodes are used again, to look only.

    One that was there when the run began, and is gone when it is resumed, is passed over.

    Raises:
        RunError: A store cannot be read.
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


def make_env(env: EnvSection) -> MakeEnv:
    """Return what builds the environment of a task.

    Raises:
        DataError: There is no environment of this name, or it cannot be imported.
    """
    found, settings = spec(env.name).load(), _env_config(env)

    def build(task: Task) -> TextEnv:
        return found(env_config=settings, extras=dict(task.extras))

    return build


def env_identity(env: EnvSection) -> dict[str, Any]:
    """Return what tells the episodes of an environment from those of another one."""
    return {
        "config": _env_config(env),
        "version": spec(env.name).load().version,
        **env_facts(env),
    }


def _env_config(env: EnvSection) -> object | None:
    """Return the configuration's settings of an environment, else those of its registration."""
    return env.config or spec(env.name).env_config


def terms_of(config: RunConfig) -> Terms:
    """Return what a gate has to know of a run."""
    return Terms(config.env.success_threshold, config.run.seed)


def read_initial_skill(config: RunConfig) -> str:
    """Return the text that training begins with; a blank ``skill.init`` is a blank skill.

    It is played and kept byte for byte, byte order mark and line breaks included; the optimiser
    reads and edits it with plain line breaks.

    Raises:
        DataError: The file is missing, or is not UTF-8.
    """
    path = config.skill.init
    return read_text(Path(path), "skill") if path else ""

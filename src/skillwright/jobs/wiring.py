"""The one place where a configuration becomes objects."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from skillwright.core import ChatModel, Sampling, Task
from skillwright.core.jsonio import read_text
from skillwright.datasets import Split, SplitDataLoader, Splits, parse_ratio, split_items
from skillwright.datasets.items import read_raw_items
from skillwright.datasets.split import check_items, refuse_empty
from skillwright.envs import TextEnv, spec
from skillwright.envs.alfworld import generated_tasks, official_tasks
from skillwright.evaluation import Gate, PairedGate, StrictGate
from skillwright.jobs.config import (
    AlfworldData,
    EnvSection,
    GeneratedData,
    PairedGateConfig,
    RatioData,
    RunConfig,
    SplitDirData,
    StrictGateConfig,
)
from skillwright.jobs.memory import EngineEvents, StoredCalls, StoredEpisodes
from skillwright.jobs.progress import Watcher
from skillwright.models import ChatAgent, HttpClient, ModelConfig, make_model
from skillwright.rollout import Engine, Limits, LocalEngine, MakeEnv, PromptStyle
from skillwright.runs import RunStore
from skillwright.textopt import (
    BudgetControl,
    LRScheduler,
    Optimizer,
    StepSettings,
    UpdateMode,
    build_scheduler,
)

OPTIMIZER_TOKENS = 16_384
"""Room for an optimiser's answer where the configuration does not say; proposals are long."""


MakeModel = Callable[[ModelConfig, HttpClient], ChatModel]
"""Makes a mind of its settings; a notebook or a test may hand in its own."""


@dataclass(frozen=True, slots=True)
class Arena:
    """What it takes to play and score episodes.

    Attributes:
        config: What the parts were made from.
        store: The run's store.
        splits: The tasks.
        engine: Plays episodes; every stage goes through it.
        target_identity: Who acts.
        watcher: Sees what happens.
    """

    config: RunConfig
    store: RunStore
    splits: Splits
    engine: Engine
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
        gate_draws: Draws per val task and side that the gate takes.
        schedule: The edit budget by step.
        steps_per_epoch: Steps in an epoch.
    """

    calls: StoredCalls
    optimizer: Optimizer
    settings: StepSettings
    gate: Gate
    gate_draws: int
    schedule: LRScheduler
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """Steps in the whole run."""
        return self.config.train.epochs * self.steps_per_epoch

    @property
    def decisions(self) -> int:
        """Decisions of the gate that the run plans for."""
        return self.config.decisions(len(self.splits.train.tasks))


@asynccontextmanager
async def assemble_arena(
    config: RunConfig, store: RunStore, watcher: Watcher, make: MakeModel = make_model
) -> AsyncIterator[Arena]:
    """Make the parts of an evaluation; what they hold open is closed at the end.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    async with HttpClient() as client:
        yield _arena(config, store, watcher, make(config.models.target, client))


@asynccontextmanager
async def assemble(
    config: RunConfig, store: RunStore, watcher: Watcher, make: MakeModel = make_model
) -> AsyncIterator[Assembly]:
    """Make the parts of a training run; what they hold open is closed at the end.

    Raises:
        UsageError: A file, environment, task or key that the configuration names is missing or
            wrong. Nothing was run yet.
    """
    async with HttpClient() as client:
        arena = _arena(config, store, watcher, make(config.models.target, client))
        mind = make(config.models.optimizer, client)
        calls = StoredCalls(mind, store, watcher)
        steps_per_epoch = config.train.steps_per_epoch(len(arena.splits.train.tasks))
        yield Assembly(
            config=config,
            store=store,
            splits=arena.splits,
            engine=arena.engine,
            target_identity=arena.target_identity,
            watcher=watcher,
            calls=calls,
            optimizer=Optimizer(calls, sampling=_optimizer_sampling(config)),
            settings=StepSettings(
                minibatch_size=config.gradient.minibatch_size,
                merge_batch_size=config.gradient.merge_batch_size,
                failure_only=config.gradient.failure_only,
                success_threshold=config.env.success_threshold,
                update_mode=UpdateMode(config.optimizer.skill_update_mode),
                rewrite_max_tokens=config.optimizer.rewrite_max_tokens,
                budget_control=BudgetControl(config.optimizer.lr_control_mode),
                repair_anchors=config.optimizer.repair_anchors,
                insert_after_fallback=config.optimizer.insert_after_fallback,
            ),
            gate=make_gate(config),
            gate_draws=_draws(config),
            schedule=build_scheduler(
                config.optimizer.lr_scheduler,
                max_lr=config.optimizer.learning_rate,
                min_lr=config.optimizer.min_learning_rate,
                total_steps=config.train.epochs * steps_per_epoch,
            ),
            steps_per_epoch=steps_per_epoch,
        )


def _arena(config: RunConfig, store: RunStore, watcher: Watcher, target: ChatModel) -> Arena:
    agent = ChatAgent(target)
    engine = LocalEngine(
        agent,
        make_env(config.env),
        limits=Limits(
            max_turns=config.env.max_turns,
            episode_timeout_s=config.rollout.episode_timeout_s,
            max_concurrent=config.rollout.max_concurrent,
            retries=config.rollout.retries,
        ),
        prompt=PromptStyle(history_turns=config.rollout.history_turns),
        recorder=StoredEpisodes(store, agent.identity),
        mode=config.rollout.mode,
        env_identity={
            "config": _env_config(config.env),
            "version": spec(config.env.name).load().version,
        },
        observer=EngineEvents(watcher),
    )
    splits = make_splits(config)
    return Arena(config, store, splits, engine, agent.identity, watcher)


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


def _env_config(env: EnvSection) -> object | None:
    """Return the configuration's settings of an environment, else those of its registration."""
    return env.config or spec(env.name).env_config


def make_gate(config: RunConfig) -> Gate:
    """Make the gate that a configuration names."""
    match config.evaluation.gate:
        case PairedGateConfig(draws=draws, family_veto=family_veto):
            return PairedGate(draws=draws, family_veto=family_veto)
        case StrictGateConfig(margin=margin, metric=metric, mixed_weight=weight):
            return StrictGate(margin, metric, weight, config.env.success_threshold)
        case never:
            assert_never(never)


def _draws(config: RunConfig) -> int:
    gate = config.evaluation.gate
    return gate.draws if isinstance(gate, PairedGateConfig) else 1


def read_initial_skill(config: RunConfig) -> str:
    """Return the text that training begins with; a blank ``skill.init`` is a blank skill.

    Raises:
        DataError: The file is missing, or is not UTF-8.
    """
    path = config.skill.init
    return read_text(Path(path), "skill") if path else ""


def make_splits(config: RunConfig) -> Splits:
    """Find the tasks that a configuration names, and seal the test split.

    Raises:
        DataError: Data is missing or malformed, or a task stands in two splits.
    """
    train, val, test = _tasks(config.env)
    limits = config.evaluation
    return Splits.of(train, val[: limits.val_tasks], test[: limits.test_tasks])


def _tasks(env: EnvSection) -> tuple[list[Task], list[Task], list[Task]]:
    match env.data:
        case GeneratedData() as data:
            counts = {"train": data.train, "val": data.val, "test": data.test}
            train, val, test = (
                generated_tasks(split, count, seed=data.seed, household=data.household)
                for split, count in counts.items()
            )
        case AlfworldData() as data:
            train = official_tasks("train", data.root)[: data.train]
            val = official_tasks("valid_seen", data.root)[: data.val]
            test = official_tasks("valid_unseen", data.root)[: data.test]
        case SplitDirData() as data:
            train, val, test = _items(env.name, _read(data))
        case RatioData() as data:
            train, val, test = _items(env.name, _cut(data))
        case never:
            assert_never(never)
    return train, val, test


def _read(data: SplitDirData) -> Split:
    loader = SplitDataLoader(data.path, split_mode="split_dir")
    loader.setup({})
    return Split(loader.train_items, loader.val_items, loader.test_items)


def _cut(data: RatioData) -> Split:
    """Cut a data set as `SplitDataLoader` does, but write nothing: looking must leave no trace."""
    items = read_raw_items(Path(data.path))
    check_items(items, repr(data.path))
    split = split_items(items, parse_ratio(data.ratio), data.seed)
    refuse_empty(split, f"{data.path!r}, {len(items)} items at {data.ratio}")
    return split


def _items(env: str, split: Split) -> list[list[Task]]:
    return [[_task(env, name, item) for item in items] for name, items in split.named()]


def _task(env: str, split: str, item: dict[str, Any]) -> Task:
    """Make a task of an item: what is not about the task itself is the environment's."""
    about = {"id", "task_type", "description"}
    return Task(
        id=str(item["id"]),
        env=env,
        extras={key: value for key, value in item.items() if key not in about},
        task_type=str(item.get("task_type", "")),
        description=str(item.get("description", "")),
        split=split,
    )

"""The protocol `Bench`, by which a run plays episodes, and the bench of text environments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, cast

from skillwright.config import RlConfig, RunConfig
from skillwright.config.env import EnvSection
from skillwright.core import (
    Agent,
    ChatModel,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillSource,
    StepDuel,
    Task,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest
from skillwright.core.seeds import evaluation_seed, training_seed
from skillwright.datasets import BatchSpec, Splits, plan_epoch
from skillwright.datasets.clusters import clusters_of
from skillwright.datasets.memorized import memorized, memorized_line
from skillwright.datasets.split import SealedTasks, tasks_digest
from skillwright.envs import EnvSpec, TextEnv, spec
from skillwright.evaluation import Draws, SkillDuel, Terms
from skillwright.jobs.run.bank_source import InjectedBank
from skillwright.jobs.run.memory import EngineEvents, StoredEpisodes
from skillwright.jobs.run.progress import Callback, StageStarted
from skillwright.jobs.run.resources import Resources
from skillwright.jobs.run.tasks import environment_of, make_splits
from skillwright.models import agent_of
from skillwright.rollout import (
    Engine,
    EpisodeRecorder,
    Limits,
    LocalEngine,
    MakeEnv,
    PromptStyle,
    refuse_no_score,
)
from skillwright.rollout.engine import Permit
from skillwright.rollout.player import Mode
from skillwright.runs import RunFolder, RunStore
from skillwright.textopt import (
    Comparison,
    Optimizer,
    PairPolicy,
    StepSettings,
    TrainRollouts,
    comparison_specs,
    read_episodes,
)

# The interface between the training loop and the benchmark. The loop handles skills, steps and
# splits; tasks, engines and rows are the bench's. `TextBench` plays our own environments; adapters
# of third parties have another bench. A bench stores everything it plays, so that a resumed run
# pays for nothing twice.


SplitName = Literal["train", "val", "test"]


class StepRef(NamedTuple):
    """The numbers of a step and its epoch, from 1."""

    step: int
    epoch: int


class Sizes(NamedTuple):
    """Sizes of the splits, ``val`` without confirmation tasks; ``None`` if not yet known."""

    train: int
    val: int | None
    test: int | None


class Bench(Protocol):
    """Plays the episodes of a run. Results do not depend on timing, and failures are no scores.

    Methods that play raise the engine's errors: `ModelRefused` if the key or the model is refused,
    `EngineDown` if all episodes fail, `UsageError` if an environment cannot be built.
    """

    @property
    def target_identity(self) -> str:
        """Identity of the agent, for display."""

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Receive the optimizer and its settings, before a training plays."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of the splits."""

    @property
    def plays_whole(self) -> bool:
        """Whether a draw of any val task plays the whole split."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """By split, a JSON object that identifies its tasks, which a resumed run compares.

        ``{"train": {"tasks": 12, "sha256": "..."}, ...}``: all have ``tasks``.
        """

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each val task that says nearly the same as another one, by id."""

    def memorized(self, skill: str, initial: str) -> str:
        """Return a sentence on train and val tasks whose answers a skill holds, or ""."""

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch.

        Args:
            epoch: From 1.
            count: Micro-batches in the epoch.
            size: Rollouts per micro-batch.

        Returns:
            ``count`` micro-batches, equal at every call. The seed of each is the run's seed +
            epoch * 1000 + index + 1, unless an adapter plans.
        """

    async def train_on(
        self, batch: BatchSpec, skill: str, place: StepRef, index: int
    ) -> TrainRollouts:
        """Play a micro-batch for analysts to read.

        Args:
            batch: One of `batches`.
            skill: The injected skill text.
            place: The step.
            index: Number of the micro-batch in the step, from 0.
        """

    async def measure(
        self, skill: str, split: SplitName, draw: int = 0, *, phase: str
    ) -> list[EpisodeResult]:
        """Play a whole split once.

        Args:
            skill: The injected skill text.
            split: Name of the split; ``test`` is for evaluations only, training uses `open_test`.
            draw: Number of the draw, which determines the seeds.
            phase: Purpose of the episodes.

        Returns:
            A result per task, in the split's order.
        """

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> StepDuel:
        """Return a duel of two skills on val, for a gate.

        Equal texts and draws are played once, also in several duels.
        """

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Play train tasks with the skills of the previous and of this epoch.

        Args:
            previous: The skill at the end of the previous epoch.
            skill: The skill at the end of this epoch.
            epoch: From 2.

        Returns:
            The pairs.
        """

    async def open_test(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Open the sealed test split, once, and play it with all skills concurrently.

        Args:
            skills: Text by name; equal texts are played once.

        Returns:
            By name, a result per task, in the split's order.
        """

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Play the confirmation tasks, which no gate has seen; arguments and results as above.

        Empty without confirmation tasks.
        """


@dataclass(frozen=True, slots=True)
class Longitudinal:
    """Settings of the comparison of two skills in an epoch update."""

    wanted: int
    policy: PairPolicy
    success_threshold: float


@dataclass(slots=True)
class TextBench:
    """Plays tasks through an engine, which limits and stores episodes; see `Bench`."""

    engine: Engine
    splits: Splits
    seed: int
    longitudinal: Longitudinal
    callback: Callback
    target_identity: str
    tell: Callable[[str], SkillSource] = PlainSkill
    _test: tuple[Task, ...] | None = field(default=None, init=False)

    plays_whole: ClassVar[bool] = False

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Do nothing: our analysts only need the episodes."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of the splits."""
        splits = self.splits
        return Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Sizes and hashes of ids and contents; for a sealed split, the hash of the seal."""
        return split_facts(self.splits)

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each val task that is in one."""
        return clusters_of(self.splits.val.tasks)

    def memorized(self, skill: str, initial: str) -> str:
        """Return a sentence on train and val tasks whose answers a skill holds, or ""."""
        known = {"val": self.splits.val.tasks, "train": self.splits.train.tasks}
        return memorized_line({s: memorized(skill, initial, tasks) for s, tasks in known.items()})

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch over the train tasks, each once, shuffled by epoch."""
        planned = plan_epoch(
            self.splits.train.tasks, epoch=epoch, batches=count, batch_size=size, seed=self.seed
        )
        # An incomplete micro-batch is filled with tasks of this epoch, with other seeds.
        visits: dict[str, int] = {}
        batches = []
        for batch in planned:
            draws = [visits.get(task.id, 0) for task in batch.items]
            visits |= {task.id: draw + 1 for task, draw in zip(batch.items, draws, strict=True)}
            about = {"epoch": epoch, "draws": draws}
            batches.append(
                BatchSpec("train", "train", batch.seed, len(batch.items), batch.items, about)
            )
        return batches

    async def train_on(
        self, batch: BatchSpec, skill: str, place: StepRef, index: int
    ) -> TrainRollouts:
        """Play a micro-batch for analysts to read."""
        step, epoch = place
        tasks = cast("Sequence[Task]", batch.payload)
        specs = [
            EpisodeSpec(task, training_seed(self.seed, epoch, step, task.id, d), d, "train", step)
            for task, d in zip(tasks, batch.metadata["draws"], strict=True)
        ]
        results = await self._run(specs, skill)
        return TrainRollouts(read_episodes(results), batch.seed)

    async def measure(
        self, skill: str, split: SplitName, draw: int = 0, *, phase: str
    ) -> list[EpisodeResult]:
        """Play a whole split once."""
        return await self._play(self.tasks(split), skill, phase, draw)

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> SkillDuel:
        """Return a duel of two skills on val."""
        sides = self.tell(incumbent), self.tell(candidate)
        return SkillDuel(self.engine, self.splits.val.tasks, *sides, draws)

    async def draw_texts(
        self, task_ids: Sequence[str], texts: Sequence[str], draws: Draws, done: int
    ) -> list[EpisodeResult]:
        """Play val tasks, each with a skill of its own, after ``done`` earlier draws."""
        tasks = {task.id: task for task in self.splits.val.tasks}
        specs = [
            draws.spec(tasks[one], draws.first + number)
            for number, one in enumerate(task_ids, start=done)
        ]
        each = [self._run([spec], text) for spec, text in zip(specs, texts, strict=True)]
        return [result for results in await together(each) for result in results]

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Play train tasks with both skills, the sample first, until there are enough pairs."""
        comparison = Comparison.plan(
            self.splits.train.tasks,
            wanted=self.longitudinal.wanted,
            seed=self.seed,
            epoch=epoch,
            policy=self.longitudinal.policy,
            success_threshold=self.longitudinal.success_threshold,
        )
        # Equal texts have no changed pairs.
        is_vain = previous == skill and comparison.policy is PairPolicy.CHANGED
        while comparison.todo and not is_vain:
            specs = comparison_specs(comparison.todo, seed=self.seed, epoch=epoch)
            self.callback.on_event(
                StageStarted("epoch update", epoch=epoch, episodes=2 * len(specs))
            )
            before, after = await together(self._run(specs, text) for text in (previous, skill))
            comparison = comparison.add(before, after)
        return comparison

    async def open_test(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Open the sealed test split, and play it with all skills concurrently."""
        return await self._play_all(self.splits.test.open(), skills, "test")

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Play the confirmation tasks with all skills concurrently."""
        if not self.splits.confirm:
            return {}
        return await self._play_all(self.splits.confirm.open(), skills, "confirm")

    async def _play_all(
        self, tasks: Sequence[Task], skills: Mapping[str, str], phase: str
    ) -> dict[str, list[EpisodeResult]]:
        played = await together(self._play(tasks, text, phase) for text in skills.values())
        # A single skill may have no score: an endpoint can refuse its text permanently.
        refuse_no_score([result for results in played for result in results])
        return dict(zip(skills, played, strict=True))

    async def _play(
        self, tasks: Sequence[Task], skill: str, phase: str, draw: int = 0
    ) -> list[EpisodeResult]:
        specs = [
            EpisodeSpec(task, evaluation_seed(self.seed, task.id, draw), draw, phase)
            for task in tasks
        ]
        return await self._run(specs, skill)

    async def _run(self, specs: list[EpisodeSpec], skill: str) -> list[EpisodeResult]:
        return await self.engine.run(specs, self.tell(skill))

    def tasks(self, split: SplitName) -> tuple[Task, ...]:
        """Return the tasks of a split; opens the test split, for evaluations only."""
        if split == "test":
            if self._test is None:
                self._test = self.splits.test.open()
            return self._test
        return self.splits.train.tasks if split == "train" else self.splits.val.tasks


def split_facts(splits: Splits) -> dict[str, dict[str, int | str]]:
    """Return sizes and hashes of splits, which identify their tasks."""
    facts = {
        "train": _named(splits.train.tasks),
        "val": _named(splits.val.tasks),
        "test": _sealed(splits.test),
    }
    return facts | ({"confirm": _sealed(splits.confirm)} if splits.confirm else {})


def _named(tasks: Sequence[Task]) -> dict[str, int | str]:
    ids = digest([task.id for task in tasks])
    return {"tasks": len(tasks), "sha256": ids, "content": tasks_digest(tasks)}


def _sealed(tasks: SealedTasks) -> dict[str, int | str]:
    return {"tasks": len(tasks), "content": tasks.sha256}


@contextmanager
def text_bench(
    config: RunConfig,
    store: RunStore,
    parts: Resources,
    target: ChatModel,
    bank: InjectedBank | None = None,
) -> Iterator[TextBench]:
    """Open the bench of our own environments, with the episodes of ``rollout.reuse``."""
    agent = agent_of(target)
    settle = bank.ledger.settle if bank else lambda: None
    pairs = Longitudinal(
        wanted=config.optimizer.slow_update_samples,
        policy=PairPolicy(config.optimizer.longitudinal_pair_policy),
        success_threshold=shown_success(config),
    )
    with reused(config) as earlier:
        recorder = StoredEpisodes(store, agent.identity, settle, earlier)
        engine = make_engine(config, agent, recorder, parts.seen, parts.budget.permit)
        yield TextBench(
            parts.placement.place(engine, config.models.target),
            make_splits(config),
            config.run.seed,
            pairs,
            parts.seen.callback,
            target.identity,
            bank.tell if bank else PlainSkill,
        )


@contextmanager
def reused(config: RunConfig) -> Iterator[list[RunStore]]:
    """Open the stores of ``rollout.reuse`` for reading; those that no longer exist are skipped."""
    with ExitStack() as held:
        paths = [Path(path) for path in config.rollout.reuse if Path(path).exists()]
        folders = [RunFolder.look(path) for path in paths]
        yield [
            held.enter_context(RunStore.open(folder.store_path, read_only=True))
            for folder in folders
        ]


def shown_success(config: RunConfig) -> float:
    """Return the minimum reward of a success for the optimizer."""
    return config.gradient.success_threshold or config.env.success_threshold


def terms_of(config: RunConfig | RlConfig, clusters: Mapping[str, str] | None = None) -> Terms:
    """Return the terms of a run for its gate, with the clusters of its val tasks."""
    return Terms(config.env.success_threshold, config.run.seed, clusters=clusters or {})


def make_engine(
    config: RunConfig | RlConfig,
    agent: Agent,
    recorder: EpisodeRecorder | None,
    seen: EngineEvents,
    permit: Permit = nullcontext,
    *,
    mode: Mode = "free",
    max_turns: int | None = None,
) -> LocalEngine:
    """Return the engine in which an agent plays the configured environment."""
    rollout = config.rollout
    return LocalEngine(
        agent,
        make_env(config.env),
        limits=Limits.of(rollout, max_turns=max_turns or config.env.max_turns),
        prompt=PromptStyle(history_turns=rollout.history_turns),
        recorder=recorder,
        mode=mode,
        env_identity=env_identity(config.env),
        observer=seen,
        permit=permit,
    )


class _Builds:
    """Builds environments; an unpickled copy imports the class on first use."""

    def __init__(self, spec: EnvSpec, settings: object | None) -> None:
        self._spec = spec
        self._settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return _Builds, (self._spec, self._settings)

    @cached_property
    def found(self) -> type[TextEnv]:
        """The environment's class."""
        return self._spec.load()

    def __call__(self, task: Task) -> TextEnv:
        return self.found(env_config=self._settings, extras=dict(task.extras))


def make_env(env: EnvSection) -> MakeEnv:
    """Return a function that builds the environment of a task."""
    builds = _Builds(replace(spec(env.name), env_config=None), _env_config(env))
    _ = builds.found  # raise an error for a missing class early
    return builds


def env_identity(env: EnvSection) -> dict[str, Any]:
    """Return the facts that identify an environment's episodes for reuse."""
    version = spec(env.name).load().version
    return {
        "config": _env_config(env),
        "version": version,
        **environment_of(env).identity(env.config),
    }


def _env_config(env: EnvSection) -> object | None:
    """Return the configured settings of an environment, or else the registered ones."""
    return env.config or spec(env.name).env_config

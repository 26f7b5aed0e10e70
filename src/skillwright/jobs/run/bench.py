"""The bench, which plays for a run: its protocol, and the bench of text environments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

from skillwright.config.rl import RlConfig
from skillwright.config.run import RunConfig
from skillwright.core import (
    ChatModel,
    Duel,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillSource,
    Task,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest
from skillwright.core.seeds import evaluation_seed, training_seed
from skillwright.datasets import BatchSpec, Splits, plan_epoch
from skillwright.datasets.split import SealedTasks, tasks_digest
from skillwright.evaluation import Draws, SkillDuel, Terms
from skillwright.jobs.run.bank_source import InjectedBank
from skillwright.jobs.run.engine import make_engine
from skillwright.jobs.run.memory import EngineEvents, StoredEpisodes
from skillwright.jobs.run.money import Budget
from skillwright.jobs.run.progress import Callback, StageStarted
from skillwright.jobs.run.tasks import make_splits
from skillwright.models import agent_of
from skillwright.rollout import Engine, refuse_no_score
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

# Where a run trains, is judged and is tested: one seam between the loop and what it plays.
#
# The loop speaks of skills, steps and splits, and never of tasks, engines or rows. `TextBench`
# plays our own environments; a third party's adapter has its own bench. Whatever a bench
# plays it must remember, so that a run that was stopped pays for nothing twice.


SplitName = Literal["train", "val", "test"]


class StepRef(NamedTuple):
    """The numbers of a step and its epoch, from 1."""

    step: int
    epoch: int


class Sizes(NamedTuple):
    """The sizes of the splits, ``val`` without confirmation tasks; ``None`` before it is known."""

    train: int
    val: int | None
    test: int | None


class Bench(Protocol):
    """Plays for a run. Results are never a matter of time, and a fault is never a score.

    Every method that plays raises what stops an engine: `ModelRefused` for a key or a model that is
    refused, `EngineDown` where nothing but failures comes back, `UsageError` for an environment
    that cannot be built as asked.
    """

    @property
    def target_identity(self) -> str:
        """Who acts, for people."""
        ...

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Take what proposals are made with, before a training plays."""
        ...

    @property
    def sizes(self) -> Sizes:
        """How many tasks there are."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """By split, a JSON object that tells its tasks from others; a resume compares them.

        ``{"train": {"tasks": 12, "sha256": "..."}, ...}``: ``tasks`` is in every one.
        """
        ...

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch.

        Args:
            epoch: From 1.
            count: Micro-batches in the epoch.
            size: Rollouts per micro-batch.

        Returns:
            ``count`` micro-batches, the same whenever they are asked for. Each has a seed of its
            own; the run's seed + epoch * 1000 + index + 1, unless an adapter plans.
        """
        ...

    async def train_on(
        self, batch: BatchSpec, skill: str, place: StepRef, index: int
    ) -> TrainRollouts:
        """Play a micro-batch for analysts to read.

        Args:
            batch: One of `batches`.
            skill: The text that the agent is given.
            place: The step.
            index: The micro-batch's place in the step, from 0.
        """
        ...

    async def measure(
        self, skill: str, split: SplitName, draw: int = 0, *, phase: str
    ) -> list[EpisodeResult]:
        """Play a whole split once.

        Args:
            skill: The text that the agent is given.
            split: Its name; ``test`` is for evaluations only, a training opens it by `open_test`.
            draw: Number of the draw; another number means other seeds.
            phase: What the episodes are for.

        Returns:
            A result per task, in the split's order.
        """
        ...

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> Duel:
        """Set two skills against each other on val, for a gate to draw from.

        Equal texts and draws are played once, however many duels draw them.
        """
        ...

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Play train tasks under the previous epoch's skill and under this one's.

        Args:
            previous: The text that the epoch before ended with.
            skill: The text that this epoch ended with.
            epoch: From 2.

        Returns:
            The pairs, complete: nothing is left to do.
        """
        ...

    async def open_test(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Break the seal of the test split, once, and play it with every skill at once.

        Args:
            skills: Text by name; equal texts are played once.

        Returns:
            By name, a result per task, in the split's order.
        """
        ...

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Play the val tasks that were kept from every gate; arguments and results as above.

        Empty where none were kept.
        """
        ...


# The bench of our own environments: an engine over the tasks of a data set.


@dataclass(frozen=True, slots=True)
class Longitudinal:
    """Which tasks an epoch update compares two skills on."""

    wanted: int
    policy: PairPolicy
    success_threshold: float


@dataclass(slots=True)
class TextBench:
    """Plays tasks through an engine, which bounds and remembers all of it; see `Bench`."""

    engine: Engine
    splits: Splits
    seed: int
    longitudinal: Longitudinal
    callback: Callback
    target_identity: str
    tell: Callable[[str], SkillSource] = PlainSkill
    _test: tuple[Task, ...] | None = field(default=None, init=False)

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Take nothing: our analysts read what was played, and ask no environment."""

    @property
    def sizes(self) -> Sizes:
        """How many tasks there are."""
        splits = self.splits
        return Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test))

    @property
    def facts(self) -> Mapping[str, Any]:
        """Sizes and hashes, of ids and of contents; the hash of a sealed split is its seal's."""
        return split_facts(self.splits)

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch over the train tasks, each once, in an order of its own."""
        planned = plan_epoch(
            self.splits.train.tasks, epoch=epoch, batches=count, batch_size=size, seed=self.seed
        )
        # A refilled micro-batch meets tasks again that the epoch had already, with other seeds.
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
        del index
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
        return await self._play(self._tasks(split), skill, phase, draw)

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> SkillDuel:
        """Set two skills against each other on val."""
        sides = self.tell(incumbent), self.tell(candidate)
        return SkillDuel(self.engine, self.splits.val.tasks, *sides, draws)

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Play train tasks under both skills, the sample first, until there are enough pairs."""
        comparison = Comparison.plan(
            self.splits.train.tasks,
            wanted=self.longitudinal.wanted,
            seed=self.seed,
            epoch=epoch,
            policy=self.longitudinal.policy,
            success_threshold=self.longitudinal.success_threshold,
        )
        # Nothing can have changed under one and the same text, so nothing is played to find it.
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
        """Break the seal of the test split, and play it with every skill at once."""
        return await self._play_all(self.splits.test.open(), skills, "test")

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Play the val tasks that were kept from every gate with every skill at once."""
        if not self.splits.confirm:
            return {}
        return await self._play_all(self.splits.confirm.open(), skills, "confirm")

    async def _play_all(
        self, tasks: Sequence[Task], skills: Mapping[str, str], phase: str
    ) -> dict[str, list[EpisodeResult]]:
        played = await together(self._play(tasks, text, phase) for text in skills.values())
        # One skill alone may be without a score: an endpoint can refuse its text for good.
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

    def _tasks(self, split: SplitName) -> tuple[Task, ...]:
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
    engine = make_engine(config, agent, recorder, seen, budget.permit)
    pairs = Longitudinal(
        wanted=config.optimizer.slow_update_samples,
        policy=PairPolicy(config.optimizer.longitudinal_pair_policy),
        success_threshold=shown_success(config),
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
    """Open the stores of ``rollout.reuse`` for reading; those that no longer exist are skipped."""
    with ExitStack() as held:
        paths = [Path(path) for path in config.rollout.reuse if Path(path).exists()]
        folders = [RunFolder.look(path) for path in paths]
        yield [
            held.enter_context(RunStore.open(folder.store_path, read_only=True))
            for folder in folders
        ]


def shown_success(config: RunConfig) -> float:
    """Return the reward from which the optimizer sees a success."""
    return config.gradient.success_threshold or config.env.success_threshold


def terms_of(config: RunConfig | RlConfig) -> Terms:
    """Return the terms of a run for its gate."""
    return Terms(config.env.success_threshold, config.run.seed)

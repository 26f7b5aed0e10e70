"""The bench of our own environments: an engine over the tasks of a data set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill, SkillSource, Task
from skillwright.core.jsonio import digest
from skillwright.core.seeds import evaluation_seed, training_seed
from skillwright.core.together import together
from skillwright.datasets import BatchSpec, Splits, plan_epoch
from skillwright.datasets.splits import SealedTasks, tasks_digest
from skillwright.evaluation import Draws, SkillDuel
from skillwright.jobs.parts.bench import Place, Sizes, SplitName
from skillwright.jobs.parts.progress import StageStarted, Watcher
from skillwright.rollout import Engine, refuse_no_score
from skillwright.textopt import (
    Comparison,
    Optimizer,
    PairPolicy,
    Practice,
    StepSettings,
    comparison_specs,
    read_episodes,
)


@dataclass(frozen=True, slots=True)
class Longitudinal:
    """Which tasks a look back compares two skills on."""

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
    watcher: Watcher
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
        splits = self.splits
        facts = {
            "train": _named(splits.train.tasks),
            "val": _named(splits.val.tasks),
            "test": _sealed(splits.test),
        }
        return facts | ({"confirm": _sealed(splits.confirm)} if splits.confirm else {})

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch over the train tasks, each once, in an order of its own."""
        planned = plan_epoch(
            self.splits.train.tasks, epoch=epoch, batches=count, batch_size=size, seed=self.seed
        )
        # A refilled micro-batch meets tasks again that the epoch had already: with other luck.
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

    async def practise(self, batch: BatchSpec, skill: str, place: Place, index: int) -> Practice:
        """Play a micro-batch for analysts to read."""
        del index
        step, epoch = place
        tasks = cast("Sequence[Task]", batch.payload)
        specs = [
            EpisodeSpec(task, training_seed(self.seed, epoch, step, task.id, d), d, "train", step)
            for task, d in zip(tasks, batch.metadata["draws"], strict=True)
        ]
        results = await self.engine.run(specs, self.tell(skill))
        return Practice(read_episodes(results), batch.seed)

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
            self.watcher.see(StageStarted("look back", epoch=epoch, episodes=2 * len(specs)))
            before, after = await together(
                self.engine.run(specs, self.tell(text)) for text in (previous, skill)
            )
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
        return await self.engine.run(specs, self.tell(skill))

    def _tasks(self, split: SplitName) -> tuple[Task, ...]:
        if split == "test":
            if self._test is None:
                self._test = self.splits.test.open()
            return self._test
        return self.splits.train.tasks if split == "train" else self.splits.val.tasks


def _named(tasks: Sequence[Task]) -> dict[str, int | str]:
    ids = digest([task.id for task in tasks])
    return {"tasks": len(tasks), "sha256": ids, "content": tasks_digest(tasks)}


def _sealed(tasks: SealedTasks) -> dict[str, int | str]:
    return {"tasks": len(tasks), "content": tasks.sha256}

"""The tasks that each stage of the recipe may use.

train  = training (cold start, GRPO) + evolution split + survey (read, never trained on)
base   = train without the evolution split
val    = gate and validation          test = sealed
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.config.rl import RlConfig
from skillwright.core import ConfigError, Task
from skillwright.core.seeds import derive_seed
from skillwright.core.waits import waiting
from skillwright.datasets import EvolutionTasks, Splits
from skillwright.datasets.clusters import clusters_of
from skillwright.envs.about import SURVEY
from skillwright.jobs.run.bench import split_facts
from skillwright.jobs.run.tasks import evolution_split, find_tasks, refuse_untrainable

_LEAST_WEIGHT = 0.08
"""The weight of a task type that is always solved: never drawn, it would be forgotten."""


@dataclass(frozen=True, slots=True)
class RlTasks:
    """The tasks of a run."""

    splits: Splits
    training: tuple[Task, ...]
    base: tuple[Task, ...]
    evolution: EvolutionTasks | None

    @property
    def val(self) -> tuple[Task, ...]:
        """The tasks of the gate and of validation."""
        return self.splits.val.tasks

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each val task that is in one."""
        return clusters_of(self.val)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Sizes and hashes of the splits; a resume compares them."""
        return split_facts(self.splits)


def find_rl_tasks(config: RlConfig) -> RlTasks:
    """Find the tasks that a configuration names, and seal the test split."""
    with waiting(f"reading the tasks of {config.env.name}"):
        train, val, test = find_tasks(config.env)
    limits = config.evaluation
    refuse_untrainable(len(train), len(val))
    splits = Splits.of(train, val[: limits.val_tasks], test[: limits.test_tasks])
    evolution = None
    if config.evolve is not None:
        evolution = evolution_split(splits.train, config.evolve.nth)
    apart = set(evolution.ids) if evolution else set()
    base = tuple(task for task in train if task.id not in apart)
    training = tuple(task for task in base if task.split != SURVEY)
    if not training:
        raise ConfigError(
            f"all {len(train)} train tasks are of the evolution split or the survey, and none is "
            "left to train on; raise evolve.nth, or add train tasks"
        )
    return RlTasks(splits, training, base, evolution)


def tasks_of_iteration(
    tasks: Sequence[Task], iteration: int, count: int, seed: int
) -> tuple[Task, ...]:
    """Return the ``count`` tasks of an iteration >= 1, or all if there are fewer.

    Each pass over the tasks has an order of its own; the tasks that fill no iteration are dropped.
    """
    portions = max(1, len(tasks) // count)
    number, at = divmod(iteration - 1, portions)
    order = _shuffled(tasks, derive_seed("practice", seed, number))  # seed
    return tuple(order[at * count : (at + 1) * count])


def harder_tasks(
    tasks: Sequence[Task], iteration: int, count: int, seed: int, wins: Mapping[str, float]
) -> tuple[Task, ...]:
    """Draw an iteration's tasks, more of the task types that fail more often."""
    rng = random.Random(derive_seed("harder", seed, iteration))
    pools: dict[str, list[Task]] = {}
    for task in _shuffled(tasks, derive_seed("harder order", seed, iteration)):
        pools.setdefault(task.task_type, []).append(task)
    drawn: list[Task] = []
    while len(drawn) < count and pools:
        names = sorted(pools)
        weights = [max(_LEAST_WEIGHT, 1 - wins.get(name, 0.5)) for name in names]
        (name,) = rng.choices(names, weights)
        drawn.append(pools[name].pop())
        if not pools[name]:
            del pools[name]
    return tuple(drawn)


def again_tasks(
    tasks: Sequence[Task], iteration: int, count: int, seed: int, undecided: Collection[str]
) -> tuple[Task, ...]:
    """Draw from the tasks whose latest group had mixed outcomes."""
    found = [task for task in tasks if task.id in undecided]
    return tuple(_shuffled(found, derive_seed("again", seed, iteration))[:count])


def other_tasks(
    tasks: Sequence[Task], iteration: int, seed: int, played: Collection[str]
) -> list[Task]:
    """Return the tasks that an iteration has not played, in the order of dynamic sampling."""
    order = _shuffled(tasks, derive_seed("dynamic sampling", seed, iteration))
    return [task for task in order if task.id not in played]


def _shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    order = list(tasks)
    random.Random(seed).shuffle(order)
    return order

"""Which train tasks a bank evolves on; the others are practised on."""

from collections import Counter
from collections.abc import Sequence

from skillwright.bank import scope_of
from skillwright.core import ConfigError, Task
from skillwright.datasets import EvolutionTasks
from skillwright.datasets.splits import StudyTasks


def evolution_split(train: StudyTasks, nth: int) -> EvolutionTasks:
    """Take every nth train task of each family and place, the last of each ``nth``."""
    if len(train.tasks) < 2:
        raise ConfigError(
            f"{len(train.tasks)} train tasks cannot be parted into tasks that a bank evolves on "
            "and others; add train tasks"
        )
    return EvolutionTasks(train, _every(train.tasks, nth))


def _every(train: Sequence[Task], nth: int) -> tuple[str, ...]:
    met: Counter[tuple[str, str]] = Counter()
    ids = []
    for task in train:
        key = (task.task_type, scope_of(task))
        met[key] += 1
        if met[key] % nth == 0:
            ids.append(task.id)
    if ids:
        return tuple(ids)
    # Few tasks of each: then every nth of all.
    return tuple(task.id for task in train[nth - 1 :: nth]) or (train[-1].id,)

"""Which tasks may be read by whom, as types."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skillwright.core import DataError, RunError, Task, did_you_mean
from skillwright.core.jsonio import digest

_WHEREABOUTS = frozenset({"game_file"})  # where a task lies, not what it is: files may be moved


def tasks_digest(tasks: Sequence[Task]) -> str:
    """Return the digest of what tasks are, in order: 64 hexadecimal digits.

    Raises:
        DataError: The extras of a task are no JSON values.
    """
    return digest([_digest(task) for task in tasks])


def _digest(task: Task) -> str:
    extras = {name: value for name, value in task.extras.items() if name not in _WHEREABOUTS}
    try:
        return digest([task.id, task.task_type, task.description, extras])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"task {task.id!r} cannot be distinguished from others by its content: {error}. "
            "The extras of a task must be plain JSON values."
        ) from error


@dataclass(frozen=True, slots=True)
class StudyTasks:
    """Tasks whose trajectories may be read by analysts, teachers and distillers."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class EvolutionTasks:
    """The study tasks on whose failures a skill bank evolves.

    They can only be a part of study tasks, so none of them decides or is reported.

    Attributes:
        study: The study tasks.
        ids: Which of them.

    Raises:
        DataError: There is no id, one stands twice, or one is no study task.
    """

    study: StudyTasks
    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) < len(self.ids):
            raise DataError("an evolution split names at least one study task, and each once")
        known = {task.id for task in self.study.tasks}
        unknown = [task_id for task_id in self.ids if task_id not in known]
        if unknown:
            raise DataError(
                f"task {unknown[0]!r} is no study task, so no bank may evolve on it. "
                f"{did_you_mean(unknown[0], known)}"
            )

    @classmethod
    def every(cls, study: StudyTasks, nth: int) -> "EvolutionTasks":
        """Take every ``nth`` study task of each task type, the first of each to begin with.

        Raises:
            DataError: There are no study tasks, or ``nth`` is below 1.
        """
        if nth < 1:
            raise DataError(f"every {nth}th task is no part of the study tasks; give 1 or more")
        met: Counter[str] = Counter()
        ids = []
        for task in study.tasks:
            if met[task.task_type] % nth == 0:
                ids.append(task.id)
            met[task.task_type] += 1
        return cls(study, tuple(ids))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the order of the study tasks."""
        return _among(self.study.tasks, set(self.ids))

    @property
    def training(self) -> StudyTasks:
        """The other study tasks."""
        own = set(self.ids)
        others = {task.id for task in self.study.tasks} - own
        return StudyTasks(_among(self.study.tasks, others))


def _among(tasks: Iterable[Task], ids: set[str]) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.id in ids)


@dataclass(frozen=True, slots=True)
class ValTasks:
    """Tasks that only gates and periodic evaluation may draw."""

    tasks: tuple[Task, ...]


@dataclass(slots=True)
class SealedTasks:
    """Tasks that one job may open, once. That job may score several artifacts."""

    _tasks: tuple[Task, ...]
    _opened: bool = field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def sha256(self) -> str:
        """What is in them, as 64 hexadecimal digits; the seal is not broken. See `tasks_digest`."""
        return tasks_digest(self._tasks)

    def open(self) -> tuple[Task, ...]:
        """Break the seal.

        Raises:
            RunError: It was broken before in this process.
        """
        if self._opened:
            raise RunError(
                "the test split was opened already; score every artifact in the one job that opens "
                "it, or evaluate in a run of its own"
            )
        self._opened = True
        return self._tasks


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of one data set; no id is in two of them.

    Attributes:
        train: What is trained on. The evolution split of a bank is a part of it.
        val: What decides.
        test: What is reported.
        confirm: Val tasks that no gate may draw: they show how far its choice was chance.
    """

    train: StudyTasks
    val: ValTasks
    test: SealedTasks
    confirm: SealedTasks = field(default_factory=lambda: SealedTasks(()))

    @classmethod
    def of(
        cls,
        train: Sequence[Task],
        val: Sequence[Task],
        test: Sequence[Task],
        confirm: Sequence[Task] = (),
    ) -> "Splits":
        """Seal a data set.

        Raises:
            DataError: An id stands twice, within a split or in two of them.
        """
        home: dict[str, str] = {}
        named = {"train": train, "val": val, "confirm": confirm, "test": test}
        for split, tasks in named.items():
            for task in tasks:
                if task.id in home:
                    raise DataError(
                        f"task id {task.id!r} is in {home[task.id]} and in {split}; "
                        "a task that was trained on cannot prove anything. Give it one split."
                    )
                home[task.id] = split
        return cls(
            StudyTasks(tuple(train)),
            ValTasks(tuple(val)),
            SealedTasks(tuple(test)),
            SealedTasks(tuple(confirm)),
        )

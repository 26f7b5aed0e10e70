"""Which tasks may be read by whom, as types.

Train and evolution tasks may be studied: analysts and teachers read their trajectories. Val tasks
only answer a gate's question. Test tasks are sealed: one act opens them, once, at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from skillwright.core import DataError, RunError, Task
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
            f"task {task.id!r} cannot be told from others by its content: {error}. The extras of a "
            "task must be plain JSON values."
        ) from error


@dataclass(frozen=True, slots=True)
class StudyTasks:
    """Tasks whose trajectories may be read by analysts, teachers and distillers."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class ValTasks:
    """Tasks that only gates and periodic evaluation may draw."""

    tasks: tuple[Task, ...]


@dataclass(slots=True)
class SealedTasks:
    """Tasks that one act may open, once. That act may score several artefacts."""

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
                "the test split was opened already; score every artefact in the one act that opens "
                "it, or evaluate in a run of its own"
            )
        self._opened = True
        return self._tasks


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of one data set; no id stands in two of them.

    Attributes:
        train: What is practised on. The evolution split of a bank is a part of it.
        val: What decides.
        test: What is reported.
        confirm: Val tasks that no gate may draw: they tell how far its choice was luck.
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
                        f"task id {task.id!r} stands in {home[task.id]} and in {split}; "
                        "a task that was practised on cannot prove anything. Give it one split."
                    )
                home[task.id] = split
        return cls(
            StudyTasks(tuple(train)),
            ValTasks(tuple(val)),
            SealedTasks(tuple(test)),
            SealedTasks(tuple(confirm)),
        )

"""Which tasks may be read by whom, as types.

Train and evolution tasks may be studied: analysts and teachers read their trajectories. Val tasks
only answer a gate's question. Test tasks are sealed: one act opens them, once, at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from skillwright.core import DataError, RunError, Task


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
    """

    train: StudyTasks
    val: ValTasks
    test: SealedTasks

    @classmethod
    def of(cls, train: Sequence[Task], val: Sequence[Task], test: Sequence[Task]) -> "Splits":
        """Seal a data set.

        Raises:
            DataError: An id stands twice, within a split or in two of them.
        """
        home: dict[str, str] = {}
        for split, tasks in (("train", train), ("val", val), ("test", test)):
            for task in tasks:
                if task.id in home:
                    raise DataError(
                        f"task id {task.id!r} stands in {home[task.id]} and in {split}; "
                        "a task that was practised on cannot prove anything. Give it one split."
                    )
                home[task.id] = split
        return cls(StudyTasks(tuple(train)), ValTasks(tuple(val)), SealedTasks(tuple(test)))

"""A run that goes on must meet the tasks that it began with."""

from collections.abc import Sequence

from skillwright.core import DataError, Task
from skillwright.core.jsonio import digest
from skillwright.jobs.wiring import Arena

TASKS = "tasks"
"""The event that says which tasks a run is made of."""


def refuse_other_tasks(run: Arena) -> None:
    """Write down which tasks a new run is made of; compare, where it goes on.

    Tasks are told apart by their ids, so their files may be moved. Of the sealed test split only
    the size is known.

    Raises:
        DataError: There are other tasks now; what was decided would not speak of them.
    """
    now: dict[str, dict[str, int | str]] = {
        "train": _named(run.splits.train.tasks),
        "val": _named(run.splits.val.tasks),
        "test": {"tasks": len(run.splits.test)},
    }
    known = run.store.events(TASKS)
    if not known:
        run.store.append_event(TASKS, now)
        return
    then = known[0].payload
    for split, facts in now.items():
        if then[split] != facts:
            raise DataError(
                f"the {split} tasks are not those that the run began with ({facts['tasks']} now, "
                f"{then[split]['tasks']} then): results before and after could not be compared. "
                "Restore the data, or start a new run."
            )


def _named(tasks: Sequence[Task]) -> dict[str, int | str]:
    return {"tasks": len(tasks), "sha256": digest([task.id for task in tasks])}

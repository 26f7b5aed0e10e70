"""A run that goes on must meet the tasks that it began with."""

from collections.abc import Mapping
from typing import Any

from skillwright.core import DataError
from skillwright.runs import RunStore

TASKS = "tasks"
"""The event that says which tasks a run is made of."""


def refuse_other_tasks(store: RunStore, facts: Mapping[str, Any]) -> None:
    """Write down which tasks a new run is made of; compare, where it goes on."""
    known = store.events(TASKS)
    if not known:
        store.append_event(TASKS, dict(facts))
        return
    then = known[0].payload
    for split, now in facts.items():
        before = then.get(split, {"tasks": 0})
        others = {name for name in before if now.get(name, before[name]) != before[name]}
        if others:
            told = f"{now['tasks']} now, {before['tasks']} then"
            if others == {"content"}:
                told = "the same ids, and at least one task with another content"
            raise DataError(
                f"the {split} tasks are not those that the run began with ({told}): results before "
                "and after could not be compared. Restore the data, or start a new run."
            )


def train_tasks(store: RunStore) -> int | None:
    """Return how many train tasks a run is made of, or ``None`` before it began."""
    known = store.events(TASKS)
    return known[0].payload["train"]["tasks"] if known else None

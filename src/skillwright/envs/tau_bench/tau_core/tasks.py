"""What a customer wants, and what should have come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.core import DataError


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call, or ``respond`` with a ``content``."""

    name: str  # the tool
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # its arguments, JSON values


@dataclass(frozen=True, slots=True)
class RetailTask:
    """One task of a split; shared by its episodes, so leave it as it is."""

    user_id: str  # who calls
    instruction: str  # what the simulated user is told; the agent never sees it
    # Gold actions; those that fail change nothing, and reads are not asked for
    actions: list[Action]
    outputs: list[str]  # texts that the agent must have said to the user


def read_tasks(listed: Any, where: str) -> tuple[RetailTask, ...]:
    """Read the tasks of a split."""
    if not isinstance(listed, list):
        raise DataError(f"{where} is not a list of tasks")
    return tuple(_task(entry, f"{where}: task {index}") for index, entry in enumerate(listed))


def _task(entry: Any, where: str) -> RetailTask:
    try:
        task = RetailTask(
            user_id=entry["user_id"],
            instruction=entry["instruction"],
            actions=[Action(action["name"], dict(action["kwargs"])) for action in entry["actions"]],
            outputs=entry["outputs"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{where} lacks what a task has (user_id, instruction, actions with name and kwargs, "
            f"outputs): {error!r}"
        ) from error
    if not isinstance(task.outputs, list):
        raise DataError(f"{where}: outputs is not a list of texts")
    if not _all_text([task.user_id, task.instruction, *task.outputs]):
        raise DataError(f"{where}: user_id, instruction and outputs are texts")
    if not _all_text([action.name for action in task.actions]):
        raise DataError(f"{where}: the name of an action is not a text")
    return task


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)

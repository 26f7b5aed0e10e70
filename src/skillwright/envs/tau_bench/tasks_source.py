"""The tasks of a split as the engine plays them, with what a report breaks them down by."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from skillwright.core import DataError, Task
from skillwright.envs.about import TaskSplits
from skillwright.envs.tau_bench.config import read_config
from skillwright.envs.tau_bench.tau_core.location import (
    ASK_FOR_BUILT_IN,
    DATA_VARIABLE,
    FETCH_COMMAND,
    data_dir,
)
from skillwright.envs.tau_bench.tau_core.store import Store, open_store
from skillwright.envs.tau_bench.tau_core.tasks import Action

NAME: Final = "tau_bench"

_KINDS: Final[Mapping[str, str]] = {
    "cancel_pending_order": "cancel",
    "modify_pending_order_address": "order_address",
    "modify_pending_order_items": "order_items",
    "modify_pending_order_payment": "order_payment",
    "modify_user_address": "user_address",
    "exchange_delivered_order_items": "exchange",
    "return_delivered_order_items": "return",
}
READ_ONLY: Final = "read_only"
SEVERAL: Final = "several_kinds"
FAMILIES: Final = (*_KINDS.values(), READ_ONLY, SEVERAL)
"""All that `task_type` returns."""


def configured_store(env_config: object | None = None) -> Store:
    """Return the data that episodes with these settings use."""
    return open_store(data_dir(read_config(env_config).data_dir).path)


def refuse_unasked_store(env_config: object | None = None) -> None:
    """Refuse to measure on the small store that comes with us, unless the settings ask for it."""
    configured = read_config(env_config).data_dir
    if not configured and data_dir().origin == ASK_FOR_BUILT_IN:
        raise DataError(
            "the data of tau-bench is not here, and scores on the small built-in store compare "
            f"with no published ones. Fetch the data by `{FETCH_COMMAND}`, name its folder in "
            f"env.config.data_dir or {DATA_VARIABLE}, or ask for the store by "
            f"env.config.data_dir={ASK_FOR_BUILT_IN}"
        )


def retail_tasks(
    split: str, env_config: object | None = None, count: int | None = None
) -> list[Task]:
    """Return the tasks of a split, in its order.

    Args:
        split: A split of the data, such as ``test``.
        env_config: The environment's settings; they say where the data is.
        count: At most so many, the first; ``None`` for all.

    Raises:
        DataError: A setting is wrong, the data is missing or damaged, or there is no such split.
    """
    store = configured_store(env_config)
    return [
        Task(
            id=f"{split}-{index:03d}",
            env=NAME,
            # The data's checksum stands in every task: over other data it is another task.
            extras={"task_index": index, "task_split": split, "data_sha256": store.checksum},
            task_type=task_type(task.actions),
            description=f"a customer of the retail store calls ({task.user_id})",
            split=split,
        )
        for index, task in enumerate(store.tasks(split)[:count])
    ]


def find_tasks(data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
    """Return the tasks for train, val and test that a ``data`` section names.

    The original data has no val split: unless one is named, its ``dev`` decides.
    """
    splits = configured_store(env_config).splits
    val = "dev" if "val" not in splits and "dev" in splits else "val"
    return (
        retail_tasks(data["train_split"], env_config, data["train"]),
        retail_tasks(data["val_split"] or val, env_config, data["val"]),
        retail_tasks(data["test_split"], env_config, data["test"]),
    )


def task_type(actions: Iterable[Action]) -> str:
    """Name a task by what its gold actions write: the one kind of it, several kinds, or nothing.

    It is the category of the task for a skill bank too. The gold actions tell it before the
    customer has said a word, a hint that the published protocol does not give: a score that was
    reached with skills chosen by it has to say so.
    """
    kinds = {_KINDS[action.name] for action in actions if action.name in _KINDS}
    if len(kinds) > 1:
        return SEVERAL
    return kinds.pop() if kinds else READ_ONLY


def is_no_op(store: Store, split: str, index: int) -> bool:
    """Tell whether a task wants the database left as it is."""
    return store.gold(split, index).is_untouched


def is_free(store: Store, split: str, index: int) -> bool:
    """Tell whether hanging up at once wins a task: nothing is to be changed, and nothing said."""
    return is_no_op(store, split, index) and not store.task(split, index).outputs

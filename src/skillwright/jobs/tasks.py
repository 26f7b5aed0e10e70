"""Where the tasks of our own environments come from."""

from pathlib import Path
from typing import Any, assert_never

from skillwright.core import ConfigError, Task
from skillwright.datasets import Split, SplitDataLoader, Splits, parse_ratio, split_items
from skillwright.datasets.items import read_raw_items
from skillwright.datasets.split import check_items, refuse_empty
from skillwright.envs.alfworld import generated_tasks, official_tasks
from skillwright.envs.tau_bench import configured_store, retail_tasks
from skillwright.jobs.config import (
    AdapterData,
    AlfworldData,
    EnvSection,
    GeneratedData,
    RatioData,
    RunConfig,
    SplitDirData,
    TauBenchData,
)


def make_splits(config: RunConfig) -> Splits:
    """Find the tasks that a configuration names, and seal the test split.

    Raises:
        ConfigError: No val task is left for the gate.
        DataError: Data is missing or malformed, or a task stands in two splits.
    """
    train, val, test = _tasks(config.env)
    limits = config.evaluation
    judged, kept = val[: limits.val_tasks], limits.confirm_tasks
    if kept >= len(judged):
        raise ConfigError(
            f"evaluation.confirm_tasks = {kept} keeps all of {len(judged)} val tasks from the gate "
            "and leaves none to decide on; lower it, or add val tasks"
        )
    at = len(judged) - kept
    return Splits.of(train, judged[:at], test[: limits.test_tasks], judged[at:])


def _tasks(env: EnvSection) -> tuple[list[Task], list[Task], list[Task]]:
    match env.data:
        case GeneratedData() as data:
            counts = {"train": data.train, "val": data.val, "test": data.test}
            train, val, test = (
                generated_tasks(split, count, seed=data.seed, household=data.household)
                for split, count in counts.items()
            )
        case AlfworldData() as data:
            train = official_tasks("train", data.root)[: data.train]
            val = official_tasks("valid_seen", data.root)[: data.val]
            test = official_tasks("valid_unseen", data.root)[: data.test]
        case SplitDirData() as data:
            train, val, test = _items(env.name, _read(data))
        case RatioData() as data:
            train, val, test = _items(env.name, _cut(data))
        case TauBenchData() as data:
            val_split = data.val_split or _val_split(env)
            train = retail_tasks(data.train_split, env.config, data.train)
            val = retail_tasks(val_split, env.config, data.val)
            test = retail_tasks(data.test_split, env.config, data.test)
        case AdapterData():
            raise ConfigError(
                f"env.data.kind 'adapter' gives the tasks of an EnvAdapter, and {env.name!r} is "
                "none; use data.kind 'split_dir' or 'ratio'"
            )
        case never:
            assert_never(never)
    return train, val, test


def _val_split(env: EnvSection) -> str:
    """Name the split that decides: the original data has none of that name, and calls it dev."""
    splits = configured_store(env.config).splits
    return "dev" if "val" not in splits and "dev" in splits else "val"


def _read(data: SplitDirData) -> Split:
    loader = SplitDataLoader(data.path, split_mode="split_dir")
    loader.setup({})
    return Split(loader.train_items, loader.val_items, loader.test_items)


def _cut(data: RatioData) -> Split:
    """Cut a data set as `SplitDataLoader` does, but write nothing: looking must leave no trace."""
    items = read_raw_items(Path(data.path))
    check_items(items, repr(data.path))
    split = split_items(items, parse_ratio(data.ratio), data.seed)
    refuse_empty(split, f"{data.path!r}, {len(items)} items at {data.ratio}")
    return split


def _items(env: str, split: Split) -> list[list[Task]]:
    return [[_task(env, name, item) for item in items] for name, items in split.named()]


def _task(env: str, split: str, item: dict[str, Any]) -> Task:
    """Make a task of an item: what is not about the task itself is the environment's."""
    about = {"id", "task_type", "description"}
    return Task(
        id=str(item["id"]),
        env=env,
        extras={key: value for key, value in item.items() if key not in about},
        task_type=str(item.get("task_type", "")),
        description=str(item.get("description", "")),
        split=split,
    )

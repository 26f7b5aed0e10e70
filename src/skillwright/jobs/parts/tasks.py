"""Where the tasks of our own environments come from."""

from pathlib import Path
from typing import Any

from skillwright.config.env import (
    AdapterData,
    EnvSection,
    RatioData,
    SplitDirData,
)
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, DataError, Task
from skillwright.datasets import Split, SplitDataLoader, Splits, parse_ratio, split_items
from skillwright.datasets.items import read_raw_items
from skillwright.datasets.split import check_items, refuse_empty
from skillwright.envs import TextEnv, spec


def make_splits(config: RunConfig) -> Splits:
    """Find the tasks that a configuration names, and seal the test split."""
    train, val, test = find_tasks(config.env)
    limits = config.evaluation
    judged, kept = val[: limits.val_tasks], limits.confirm_tasks
    if kept >= len(judged):
        raise ConfigError(
            f"evaluation.confirm_tasks = {kept} keeps all of {len(judged)} val tasks from the gate "
            "and leaves none to decide on; lower it, or add val tasks"
        )
    at = len(judged) - kept
    return Splits.of(train, judged[:at], test[: limits.test_tasks], judged[at:])


def tasks_in_file(env: str, path: Path) -> list[Task]:
    """Read the tasks of one file, as the data kinds ``split_dir`` and ``ratio`` would."""
    items = _tidied(env, read_raw_items(path), str(path))
    check_items(items, repr(str(path)))
    return [_task(env, "", item) for item in items]


def find_tasks(env: EnvSection) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the tasks of an environment for train, val and test."""
    match env.data:
        case SplitDirData() as data:
            train, val, test = _items(env.name, _read(env.name, data))
        case RatioData() as data:
            train, val, test = _items(env.name, _cut(env.name, data))
        case AdapterData():
            raise ConfigError(
                f"env.data.kind 'adapter' gives the tasks of an EnvAdapter, and {env.name!r} is "
                "none; use data.kind 'split_dir' or 'ratio'"
            )
        case data:
            found = spec(env.name).load().find_tasks(data.model_dump(), env.config)
            train, val, test = found
    return train, val, test


class _TidyLoader(SplitDataLoader):
    """Reads a folder that is split already, and lets the environment bring items to shape."""

    def __init__(self, env: str, path: str) -> None:
        super().__init__(path, split_mode="split_dir")
        self._env = env

    def load_split_items(self, split_path: str) -> list[Any]:
        """Read one split's folder."""
        return _tidied(self._env, super().load_split_items(split_path), split_path)


def _read(env: str, data: SplitDirData) -> Split:
    loader = _TidyLoader(env, data.path)
    loader.setup({})
    return Split(loader.train_items, loader.val_items, loader.test_items)


def _cut(env: str, data: RatioData) -> Split:
    """Cut a data set as `SplitDataLoader` does, but write nothing: looking must leave no trace."""
    items = _tidied(env, read_raw_items(Path(data.path)), data.path)
    check_items(items, repr(data.path))
    split = split_items(items, parse_ratio(data.ratio), data.seed)
    refuse_empty(split, f"{data.path!r}, {len(items)} items at {data.ratio}")
    return split


def _tidied(env: str, items: list[Any], path: str) -> list[Any]:
    env_class = spec(env).load()
    if not issubclass(env_class, TextEnv):  # one of SkyRL-Gym takes items as they are
        return items
    try:
        return env_class.tidied_items(items)
    except DataError as error:
        raise DataError(f"{path!r}: {error}") from error


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

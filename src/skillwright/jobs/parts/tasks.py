"""Where the tasks of our own environments come from."""

from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never

from skillwright.config.env import (
    AdapterData,
    AlfworldData,
    EnvSection,
    GeneratedData,
    HouseholdsData,
    QaData,
    RatioData,
    SplitDirData,
    TauBenchData,
    WebShopData,
)
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, DataError, Task
from skillwright.datasets import Split, SplitDataLoader, Splits, parse_ratio, split_items
from skillwright.datasets.items import read_raw_items
from skillwright.datasets.split import check_items, refuse_empty
from skillwright.envs import TextEnv, spec
from skillwright.envs.alfworld import generated_tasks, official_tasks
from skillwright.envs.alfworld.generate import household_tasks
from skillwright.envs.qa import generated_questions
from skillwright.envs.tau_bench import configured_store, retail_tasks
from skillwright.envs.webshop import webshop_tasks

SURVEY = "survey"
"""What `Task.split` says of train tasks that a bank may learn from, and weights may not."""

_NEW_HOMES = 100_000
"""No seed has so many homes to practise in."""


def make_splits(config: RunConfig) -> Splits:
    """Find the tasks that a configuration names, and seal the test split.

    Raises:
        ConfigError: No val task is left for the gate.
        DataError: Data is missing or malformed, or a task stands in two splits.
    """
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
    """Read the tasks of one file, as the data kinds ``split_dir`` and ``ratio`` would.

    Raises:
        DataError: The environment is unknown, or the file is missing or malformed.
    """
    items = _tidied(env, read_raw_items(path), str(path))
    check_items(items, repr(str(path)))
    return [_task(env, "", item) for item in items]


def find_tasks(env: EnvSection) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the tasks of an environment for train, val and test.

    Raises:
        ConfigError: An adapter would have to bring them.
        DataError: Data is missing or malformed.
    """
    match env.data:
        case GeneratedData() as data:
            counts = {"train": data.train, "val": data.val, "test": data.test}
            train, val, test = (
                generated_tasks(split, count, seed=data.seed, household=data.household)
                for split, count in counts.items()
            )
        case HouseholdsData() as data:
            train, val, test = _households(data)
        case AlfworldData() as data:
            train = official_tasks("train", data.root)[: data.train]
            val = official_tasks("valid_seen", data.root)[: data.val]
            test = official_tasks("valid_unseen", data.root)[: data.test]
        case SplitDirData() as data:
            train, val, test = _items(env.name, _read(env.name, data))
        case RatioData() as data:
            train, val, test = _items(env.name, _cut(env.name, data))
        case TauBenchData() as data:
            val_split = data.val_split or _val_split(env)
            train = retail_tasks(data.train_split, env.config, data.train)
            val = retail_tasks(val_split, env.config, data.val)
            test = retail_tasks(data.test_split, env.config, data.test)
        case QaData() as data:
            counts = {"train": data.train, "val": data.val, "test": data.test}
            train, val, test = (
                generated_questions(split, count, seed=data.seed) for split, count in counts.items()
            )
        case WebShopData() as data:
            counts = {"train": data.train, "val": data.val, "test": data.test}
            train, val, test = (
                webshop_tasks(split, n, seed=data.seed, goals=data.goals, env_config=env.config)
                for split, n in counts.items()
            )
        case AdapterData():
            raise ConfigError(
                f"env.data.kind 'adapter' gives the tasks of an EnvAdapter, and {env.name!r} is "
                "none; use data.kind 'split_dir' or 'ratio'"
            )
        case never:
            assert_never(never)
    return train, val, test


def _households(data: HouseholdsData) -> tuple[list[Task], list[Task], list[Task]]:
    first = data.seed * data.homes
    homes = range(first, first + data.homes)
    later = _NEW_HOMES + data.seed * data.new_homes
    new = range(later, later + data.new_homes) or homes
    try:
        train = household_tasks("train", data.train, homes=homes, seed=data.seed)
        survey = household_tasks("train", data.survey, homes=new, seed=data.seed)
        val = household_tasks("val", data.val, homes=new, seed=data.seed)
        test = household_tasks("test", data.test, homes=new, seed=data.seed)
    except DataError as error:
        counts = f"env.data.homes = {data.homes} and new_homes = {data.new_homes}"
        raise DataError(f"{counts} are too few: {error}") from error
    return [*train, *(replace(task, split=SURVEY) for task in survey)], val, test


def _val_split(env: EnvSection) -> str:
    """Name the split that decides: the original data has none of that name, and calls it dev."""
    splits = configured_store(env.config).splits
    return "dev" if "val" not in splits and "dev" in splits else "val"


class _TidyLoader(SplitDataLoader):
    """Reads a folder that is split already, and lets the environment bring items to shape."""

    def __init__(self, env: str, path: str) -> None:
        super().__init__(path, split_mode="split_dir")
        self._env = env

    def load_split_items(self, split_path: str) -> list[Any]:
        """Read one split's folder.

        Raises:
            DataError: It holds no list of items, or the environment refuses one.
        """
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

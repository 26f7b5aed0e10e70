"""The games that a ``data`` section of a configuration names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from skillwright.core import DataError
from skillwright.envs.about import SURVEY, TaskSplits
from skillwright.envs.alfworld.generate import generated_tasks, household_tasks
from skillwright.envs.alfworld.official import official_tasks

_NEW_HOMES: Final = 100_000
"""No seed has so many homes to train in."""


def find_tasks(data: Mapping[str, Any]) -> TaskSplits:
    """Return the games for train, val and test.

    Raises:
        DataError: There are too few homes, or the official games are missing.
    """
    if data["kind"] == "households":
        return _households(data)
    if data["kind"] == "alfworld_data":
        root = data["root"]
        return (
            official_tasks("train", root)[: data["train"]],
            official_tasks("valid_seen", root)[: data["val"]],
            official_tasks("valid_unseen", root)[: data["test"]],
        )
    train, val, test = (
        generated_tasks(split, data[split], seed=data["seed"], household=data["household"])
        for split in ("train", "val", "test")
    )
    return train, val, test


def _households(data: Mapping[str, Any]) -> TaskSplits:
    seed, count, new_count = data["seed"], data["homes"], data["new_homes"]
    homes = range(seed * count, (seed + 1) * count)
    later = _NEW_HOMES + seed * new_count
    new = range(later, later + new_count) or homes
    try:
        train = household_tasks("train", data["train"], homes=homes, seed=seed)
        survey = household_tasks("train", data["survey"], homes=new, seed=seed)
        val = household_tasks("val", data["val"], homes=new, seed=seed)
        test = household_tasks("test", data["test"], homes=new, seed=seed)
    except DataError as error:
        counts = f"env.data.homes = {count} and new_homes = {new_count}"
        raise DataError(f"{counts} are too few: {error}") from error
    return [*train, *(replace(task, split=SURVEY) for task in survey)], val, test

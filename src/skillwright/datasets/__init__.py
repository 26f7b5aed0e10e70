"""Which tasks, in what order."""

from skillwright.datasets.batch import BatchSpec
from skillwright.datasets.fetch import FetchError, FetchSettings, cache_dir, fetch_file
from skillwright.datasets.loader import BaseDataLoader, SplitDataLoader
from skillwright.datasets.plan import PlannedBatch, plan_epoch
from skillwright.datasets.split import (
    Counts,
    Ratio,
    Split,
    SplitError,
    SplitFileMissing,
    by_split,
    canonical_split,
    parse_ratio,
    split_counts,
    split_items,
)
from skillwright.datasets.splits import (
    EvolutionTasks,
    SealedTasks,
    Splits,
    StudyTasks,
    ValTasks,
)

__all__ = [
    "BaseDataLoader",
    "BatchSpec",
    "Counts",
    "EvolutionTasks",
    "FetchError",
    "FetchSettings",
    "PlannedBatch",
    "Ratio",
    "SealedTasks",
    "Split",
    "SplitDataLoader",
    "SplitError",
    "SplitFileMissing",
    "Splits",
    "StudyTasks",
    "ValTasks",
    "by_split",
    "cache_dir",
    "canonical_split",
    "fetch_file",
    "parse_ratio",
    "plan_epoch",
    "split_counts",
    "split_items",
]

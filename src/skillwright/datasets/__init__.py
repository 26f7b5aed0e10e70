"""Which tasks, in what order."""

from skillwright.datasets.fetch import FetchError, FetchSettings, cache_dir, fetch_file
from skillwright.datasets.on_disk import BaseDataLoader, SplitDataLoader
from skillwright.datasets.sealed import (
    EvolutionTasks,
    SealedTasks,
    Splits,
    StudyTasks,
    ValTasks,
)
from skillwright.datasets.split import (
    BatchSpec,
    Counts,
    PlannedBatch,
    Ratio,
    Split,
    SplitError,
    SplitFileMissing,
    by_split,
    canonical_split,
    parse_ratio,
    plan_epoch,
    split_counts,
    split_items,
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

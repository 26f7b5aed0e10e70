"""Read, split and order the tasks of a data set."""

from skillwright.datasets.fetch import FetchError as FetchError
from skillwright.datasets.fetch import FetchSettings as FetchSettings
from skillwright.datasets.fetch import cache_dir as cache_dir
from skillwright.datasets.fetch import fetch_file as fetch_file
from skillwright.datasets.on_disk import BaseDataLoader as BaseDataLoader
from skillwright.datasets.on_disk import SplitDataLoader as SplitDataLoader
from skillwright.datasets.split import USUAL_RATIO as USUAL_RATIO
from skillwright.datasets.split import BatchSpec as BatchSpec
from skillwright.datasets.split import EvolutionTasks as EvolutionTasks
from skillwright.datasets.split import Ratio as Ratio
from skillwright.datasets.split import Split as Split
from skillwright.datasets.split import SplitError as SplitError
from skillwright.datasets.split import SplitFileMissing as SplitFileMissing
from skillwright.datasets.split import Splits as Splits
from skillwright.datasets.split import StudyTasks as StudyTasks
from skillwright.datasets.split import ValTasks as ValTasks
from skillwright.datasets.split import by_split as by_split
from skillwright.datasets.split import canonical_split as canonical_split
from skillwright.datasets.split import own_copies as own_copies
from skillwright.datasets.split import parse_ratio as parse_ratio
from skillwright.datasets.split import plan_epoch as plan_epoch
from skillwright.datasets.split import split_counts as split_counts
from skillwright.datasets.split import split_items as split_items

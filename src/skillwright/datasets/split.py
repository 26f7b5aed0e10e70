"""Split a data set into train, val and test, and plan the order of an epoch."""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from skillwright.core import DataError, RunError, Task, did_you_mean
from skillwright.core.jsonio import digest

T = TypeVar("T")

EPOCH_STRIDE = 1000
USUAL_RATIO = "2:1:7"
"""The default shares of train, val and test, of SkillOpt's ``split_ratio``."""


@dataclass(frozen=True, slots=True)
class PlannedBatch(Generic[T]):
    """One micro-batch: its seed, and its items in order."""

    seed: int
    items: tuple[T, ...]


def shuffled(values: Sequence[T], seed: int) -> list[T]:
    """Return a shuffled copy of the values."""
    order = list(values)
    random.Random(seed).shuffle(order)
    return order


def own_copies(items: Iterable[T]) -> list[T]:
    """Return copies of items for code that may change them.

    Dicts, lists, sets and arrays are copied, on every level; other objects (an open file, a
    simulator) are shared.
    """
    made: dict[int, Any] = {}
    return [_own_copy(item, made) for item in items]


def _own_copy(value: Any, made: dict[int, Any]) -> Any:
    if id(value) in made:
        return made[id(value)]
    if not (isinstance(value, dict | list | set) or type(value).__module__ == "numpy"):
        return value
    new = made[id(value)] = copy(value)
    if isinstance(value, dict):
        for name, part in value.items():
            new[name] = _own_copy(part, made)
    elif isinstance(value, list):
        new[:] = [_own_copy(part, made) for part in value]
    return new


def plan_epoch(
    items: Sequence[T], *, epoch: int, batches: int, batch_size: int, seed: int
) -> list[PlannedBatch[T]]:
    """Plan an epoch over the items, each once, in a seeded order.

    Micro-batches that would be empty at the end are refilled from a fresh shuffle.

    Args:
        items: The train items.
        epoch: From 1.
        batches: Micro-batches in the epoch.
        batch_size: Items per micro-batch; the last one that has items may be shorter.
        seed: The run's seed.
    """
    epoch_seed = seed + epoch * EPOCH_STRIDE
    order = shuffled(items, epoch_seed)
    planned = []
    for index in range(batches):
        batch_seed = epoch_seed + index + 1
        chosen = order[index * batch_size : (index + 1) * batch_size]
        chosen = chosen or shuffled(order, batch_seed)[:batch_size]
        planned.append(PlannedBatch(batch_seed, tuple(chosen)))
    return planned


# Source: SkillOpt (microsoft/SkillOpt), ``datasets/base.py``, equal bit for bit; but duplicate
# ids and empty splits are errors here.


Item = dict[str, Any]
SPLIT_NAMES = ("train", "val", "test")

_ALIASES = {
    "train": "train",
    "val": "val",
    "valid_seen": "val",
    "selection": "val",
    "test": "test",
    "valid_unseen": "test",
}


class SplitError(DataError, ValueError):
    """A split cannot be made, read or named; also a `ValueError`, as documented for loaders."""


class SplitFileMissing(DataError, FileNotFoundError):
    """A data file is missing; also a `FileNotFoundError`, as documented for loaders."""


class Ratio(NamedTuple):
    """Weights of the three splits, each at least 1."""

    train: int
    val: int
    test: int

    def __str__(self) -> str:
        return ":".join(str(weight) for weight in self)


class Counts(NamedTuple):
    """Number of items per split."""

    train: int
    val: int
    test: int


class Split(NamedTuple):
    """Items of the three splits, in order."""

    train: list[Item]
    val: list[Item]
    test: list[Item]

    def named(self) -> Iterator[tuple[str, list[Item]]]:
        """Iterate over names and items: train, val, test."""
        yield from zip(SPLIT_NAMES, self, strict=True)


def canonical_split(name: str) -> str:
    """Return ``train``, ``val`` or ``test`` for a split's name or alias.

    ``valid_seen`` and ``selection`` mean val, ``valid_unseen`` means test.

    Raises:
        SplitError: The name is unknown, for which SkillOpt silently uses val.
    """
    try:
        return _ALIASES[name]
    except KeyError:
        raise SplitError(f"no split is called {name!r}. {did_you_mean(name, _ALIASES)}") from None


def by_split(named: Mapping[str, T]) -> dict[str, T]:
    """Rename the keys of a mapping by split to the splits' own names.

    Raises:
        SplitError: A name is unknown, or two mean the same split.
    """
    given_as: dict[str, str] = {}
    for name in named:
        other = given_as.setdefault(canonical_split(name), name)
        if other != name:
            raise SplitError(f"{other!r} and {name!r} name the same split; give one of them")
    return {split: named[name] for split, name in given_as.items()}


def parse_ratio(text: str, least: int = 1) -> Ratio:
    """Read ``"2:1:7"``.

    Args:
        text: Three parts, each an integer.
        least: Smallest part; 0 allows splits without items, but not without any.

    Raises:
        SplitError: There are not three parts, or one is no integer or too small.
    """
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != len(SPLIT_NAMES) or not all(parts):
        raise SplitError(
            f"split_ratio must be in train:val:test form, three parts such as 2:1:7; got {text!r}"
        )
    try:
        ratio = Ratio(*(int(part) for part in parts))
    except ValueError:
        raise SplitError(f"split_ratio must contain integers; got {text!r}") from None
    if min(ratio) < least or not any(ratio):
        raise SplitError(
            f"split_ratio parts must be positive; got {text!r}. Every split needs a share."
        )
    return ratio


def split_counts(n_items: int, ratio: Ratio) -> Counts:
    """Divide ``n_items`` by largest remainder; ties go to the larger weight, then to the first.

    Counts may be 0.
    """
    total = sum(ratio)
    counts = [n_items * weight // total for weight in ratio]
    by_remainder = sorted(
        range(len(ratio)), key=lambda at: (-(n_items * ratio[at] % total), -ratio[at], at)
    )
    for at in by_remainder[: n_items - sum(counts)]:
        counts[at] += 1
    return Counts(*counts)


def split_items(items: Sequence[Item], ratio: Ratio, seed: int) -> Split:
    """Shuffle by ``Random(seed)`` and cut into train, val and test, in this order.

    A split may be empty: see `refuse_empty`.
    """
    order = shuffled(items, seed)
    counts = split_counts(len(order), ratio)
    val_at, test_at = counts.train, counts.train + counts.val
    return Split(order[:val_at], order[val_at:test_at], order[test_at:])


def check_items(items: Sequence[object], where: str) -> None:
    """Check that every item is an object with a unique id.

    Raises:
        SplitError: An item is no object, has no ``id``, or repeats one.
    """
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise SplitError(f"{where}: item {index} is a {type(item).__name__}, not an object")
        if item.get("id") in (None, ""):
            raise SplitError(f"{where}: item {index} has no 'id'; every item needs one of its own")
        item_id = str(item["id"])
        if item_id in first:
            raise SplitError(
                f"{where}: id {item_id!r} stands at item {first[item_id]} and at item {index}; "
                "remove one, or give it an id of its own"
            )
        first[item_id] = index


def refuse_empty(split: Split, origin: str) -> None:
    """Check that every split has items.

    Raises:
        SplitError: A split is empty.
    """
    empty = [name for name, items in split.named() if not items]
    if empty:
        counts = ", ".join(f"{len(items)} {name}" for name, items in split.named())
        raise SplitError(
            f"{origin}: split {empty[0]!r} is empty ({counts}). Training, deciding and reporting "
            "each need items of their own: add some, or cut the data by another split_ratio."
        )


def refuse_overlap(split: Split, origin: str) -> None:
    """Check that all ids are unique over all splits."""
    home: dict[str, str] = {}
    for name, items in split.named():
        check_items(items, f"{origin}, split {name!r}")
        for item in items:
            item_id = str(item["id"])
            other = home.setdefault(item_id, name)
            if other != name:
                raise SplitError(
                    f"{origin}: id {item_id!r} overlaps: it is in {other!r} and in {name!r}. "
                    "An item that was trained on cannot prove anything; leave it in one split."
                )


_WIDE: Final = re.compile("[\uff00-\uffef\u3000]+")
_UNSEEN: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_BETWEEN_DIGITS: Final = re.compile(r"(?<=\d)\s+(?=\d)")
_MARK: Final = re.compile(r"[^\w\s]")
_SHOWN: Final = 60


def near_key(text: str) -> str:
    """Return a text without case, width, blanks and punctuation; equal for near-copies.

    Marks that change numbers stay: 1.5 is not 15, and 2 - 3 not 2 + 3.
    """
    narrow = _WIDE.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), text)
    plain = unicodedata.normalize("NFC", _UNSEEN.sub("", narrow.casefold()))
    parted = _BETWEEN_DIGITS.sub("\x00", plain)
    joined = "".join(parted.split())
    return _MARK.sub(lambda mark: mark[0] if _counts(joined, mark.start()) else "", joined)


def _counts(text: str, at: int) -> bool:
    """Tell whether a mark is more than punctuation: a sign, or a part of a number."""
    if unicodedata.category(text[at])[0] != "P" or text[at] in "#@&":
        return True
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return (text[at] in "-.,:/*(" and after.isdigit()) or (text[at] in "%!)" and before.isdigit())


def near_copies(asked: Mapping[str, Mapping[str, str]]) -> str:
    """Name the tasks of a split that nearly repeat one of an earlier split; "" if none does.

    Args:
        asked: Per split, in the order train, val, test: the question of each task, by its name.
    """
    first: dict[str, dict[str, str]] = {}
    said = []
    for split, tasks in asked.items():
        own: dict[str, str] = {}
        found: dict[str, list[tuple[str, str]]] = {earlier: [] for earlier in first}
        for name, text in tasks.items():
            key = near_key(text)
            own.setdefault(key, name)
            for earlier, keys in first.items():
                if key and key in keys:
                    found[earlier].append((name, keys[key]))
        for earlier, pairs in found.items():
            if pairs:
                name, other = pairs[0]
                said.append(
                    f"{len(pairs)} of {len(tasks)} {split} tasks repeat one of {earlier} (such as "
                    f"{name} and {other}: {' '.join(tasks[name].split())[:_SHOWN]!r})"
                )
        first[split] = own
    if not said:
        return ""
    return (
        f"near-copies across splits, equal but for case, blanks, punctuation or width: "
        f"{'; '.join(said)}. A task that was trained on proves nothing; leave each in one split"
    )


@dataclass(slots=True)
class BatchSpec:
    """A trainer's request of one batch to an adapter.

    Source: SkillOpt (microsoft/SkillOpt), API reference; mutable and slotted, as there.

    Attributes:
        phase: ``train`` or ``eval``.
        split: The requested name of the split, possibly an alias (``valid_seen``).
        payload: Data of the loader, such as a list of items.
    """

    phase: str
    split: str
    seed: int
    batch_size: int
    payload: object | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


_WHEREABOUTS = frozenset({"game_file"})  # paths, which are no part of a task: files may be moved


def tasks_digest(tasks: Sequence[Task]) -> str:
    """Return the digest of tasks in order, 64 hexadecimal digits.

    Raises:
        DataError: The extras of a task cannot be written as JSON.
    """
    return digest([_digest(task) for task in tasks])


def _digest(task: Task) -> str:
    extras = {name: value for name, value in task.extras.items() if name not in _WHEREABOUTS}
    try:
        return digest([task.id, task.task_type, task.description, extras])
    except (TypeError, ValueError) as error:
        raise DataError(
            f"task {task.id!r} cannot be distinguished from others by its content: {error}. "
            "The extras of a task must be plain JSON values."
        ) from error


@dataclass(frozen=True, slots=True)
class StudyTasks:
    """Tasks whose trajectories may be read by analysts, teachers and distillers."""

    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class EvolutionTasks:
    """The study tasks from whose failures a skill bank evolves.

    Raises:
        DataError: There are no ids, duplicates, or ids of other tasks.
    """

    study: StudyTasks
    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) < len(self.ids):
            raise DataError("an evolution split names at least one study task, and each once")
        known = {task.id for task in self.study.tasks}
        unknown = [task_id for task_id in self.ids if task_id not in known]
        if unknown:
            raise DataError(
                f"task {unknown[0]!r} is no study task, so no bank may evolve on it. "
                f"{did_you_mean(unknown[0], known)}"
            )

    @classmethod
    def every(cls, study: StudyTasks, nth: int) -> "EvolutionTasks":
        """Take every ``nth`` study task of each task type, starting with the first.

        Raises:
            DataError: There are no study tasks, or ``nth`` is below 1.
        """
        if nth < 1:
            raise DataError(f"every {nth}th study task cannot be taken; give 1 or more")
        met: Counter[str] = Counter()
        ids = []
        for task in study.tasks:
            if met[task.task_type] % nth == 0:
                ids.append(task.id)
            met[task.task_type] += 1
        return cls(study, tuple(ids))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the order of the study tasks."""
        return _among(self.study.tasks, set(self.ids))

    @property
    def training(self) -> StudyTasks:
        """The other study tasks."""
        own = set(self.ids)
        others = {task.id for task in self.study.tasks} - own
        return StudyTasks(_among(self.study.tasks, others))


def _among(tasks: Iterable[Task], ids: set[str]) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task.id in ids)


@dataclass(frozen=True, slots=True)
class ValTasks:
    """Tasks that only gates and periodic evaluation may draw."""

    tasks: tuple[Task, ...]


@dataclass(slots=True)
class SealedTasks:
    """Tasks that only one job may open, and only once, to score any number of artifacts."""

    _tasks: tuple[Task, ...]
    _opened: bool = field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def sha256(self) -> str:
        """Digest of the tasks (`tasks_digest`), without opening them."""
        return tasks_digest(self._tasks)

    def open(self) -> tuple[Task, ...]:
        """Open the tasks.

        Raises:
            RunError: They were opened before in this process.
        """
        if self._opened:
            raise RunError(
                "the test split was opened already; score every artifact in the one job that opens "
                "it, or evaluate in a run of its own"
            )
        self._opened = True
        return self._tasks


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of one data set; no id is in two of them.

    Attributes:
        train: Tasks to train on. The evolution split of a bank is a part of it.
        confirm: Val tasks that no gate may draw; they show how much of its gain was chance.
    """

    train: StudyTasks
    val: ValTasks
    test: SealedTasks
    confirm: SealedTasks = field(default_factory=lambda: SealedTasks(()))

    @classmethod
    def of(
        cls,
        train: Sequence[Task],
        val: Sequence[Task],
        test: Sequence[Task],
        confirm: Sequence[Task] = (),
    ) -> "Splits":
        """Seal a data set.

        Raises:
            DataError: An id occurs twice, within a split or in two of them.
        """
        home: dict[str, str] = {}
        named = {"train": train, "val": val, "confirm": confirm, "test": test}
        for split, tasks in named.items():
            for task in tasks:
                if task.id in home:
                    raise DataError(
                        f"task id {task.id!r} is in {home[task.id]} and in {split}; "
                        "a task that was trained on cannot prove anything. Give it one split."
                    )
                home[task.id] = split
        return cls(
            StudyTasks(tuple(train)),
            ValTasks(tuple(val)),
            SealedTasks(tuple(test)),
            SealedTasks(tuple(confirm)),
        )

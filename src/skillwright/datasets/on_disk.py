"""Splits on disk, read from folders or cut from one file, and their loaders."""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NoReturn

from skillwright.core import did_you_mean
from skillwright.core.jsonio import digest, dumps, read_text, write_text
from skillwright.datasets.rows import Table
from skillwright.datasets.split import (
    EPOCH_STRIDE,
    SPLIT_NAMES,
    USUAL_RATIO,
    BatchSpec,
    Item,
    Split,
    SplitError,
    SplitFileMissing,
    by_split,
    canonical_split,
    check_items,
    own_copies,
    parse_ratio,
    plan_epoch,
    refuse_empty,
    refuse_overlap,
    shuffled,
    split_items,
)

MANIFEST_NAME = "split_manifest.json"
ITEMS_NAME = "items.json"

_DATA_SUFFIXES = (".json", ".jsonl")
_MOST_CHARS = 8_000_000  # characters of an item; no model reads more


def read_raw_items(path: Path) -> list[Any]:
    """Read an unsplit data set, without checking its items (`check_items`).

    A file is JSON, JSON Lines, CSV, TSV or Parquet; in a folder only the first two are read.

    Raises:
        SplitError: The folder is split already or holds several data files, or the file is
            malformed (the message gives line and column).
        SplitFileMissing: The path or the folder's data file does not exist.
        DataError: The file cannot be read, or is not UTF-8.
    """
    file = _single_file(path) if path.is_dir() else path
    if not file.is_file():
        raise SplitFileMissing(f"data_path {str(path)!r} does not exist")
    if file.suffix.lower() in (".csv", ".tsv", ".parquet"):
        return list(Table(file).rows())
    items = _as_list(_read(file), file)
    _refuse_long(items, file)
    return items


def read_split_folder(path: Path) -> tuple[list[Any], list[str]]:
    """Read a split from the alphabetically first ``.json`` file of a folder, or else ``.jsonl``.

    Returns:
        The items, and the names of further files, which are not read.
    """
    files = sorted(path.glob("*.json")) or sorted(path.glob("*.jsonl"))
    if not files:
        raise SplitFileMissing(
            f"{str(path)!r} holds no .json or .jsonl file; put the items in items.json"
        )
    items = _read(files[0])
    if not isinstance(items, list):
        raise SplitError(f"{str(files[0])!r} holds a {_kind(items)}; a list of items is needed")
    _refuse_long(items, files[0])
    return items, [file.name for file in files[1:]]


def split_manifest(split: Split, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a split, so that equality can be checked elsewhere.

    Returns:
        ``facts``, then per split ``counts``, ``ids`` in order, and ``sha256`` of the items
        (``None`` if they are no JSON).
    """
    named = dict(split.named())
    return {
        **facts,
        "counts": {name: len(items) for name, items in named.items()},
        "ids": {name: [str(item["id"]) for item in items] for name, items in named.items()},
        "sha256": {name: _fingerprint(items) for name, items in named.items()},
    }


def write_split(folder: Path, split: Split, manifest: Mapping[str, Any]) -> None:
    """Write ``<split>/items.json`` and ``split_manifest.json`` atomically."""
    bodies = {name: _as_json(name, items) for name, items in split.named()}
    for name, body in bodies.items():
        write_text(folder / name / ITEMS_NAME, body + "\n")
    # Last, so that a manifest only names existing files.
    write_text(folder / MANIFEST_NAME, dumps(manifest, indent=2) + "\n")


def _fingerprint(items: Sequence[Item]) -> str | None:
    try:
        return digest(items)
    except (TypeError, ValueError):  # a custom loader may add images, paths, dates
        return None


def _as_json(name: str, items: Sequence[Item]) -> str:
    try:
        return dumps(items, indent=2)
    except (TypeError, ValueError) as error:
        raise SplitError(
            f"split {name!r} cannot be written as JSON: {error}. Return plain values from "
            "load_raw_items(), or cut the data yourself and use split_mode='split_dir'."
        ) from error


def _single_file(folder: Path) -> Path:
    if all((folder / name).is_dir() for name in SPLIT_NAMES):
        raise SplitError(
            f"data_path {str(folder)!r} is split already (it holds train/, val/ and test/); "
            "use split_mode='split_dir' with split_dir set to it"
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _DATA_SUFFIXES)
    if not files:
        raise SplitFileMissing(f"data_path {str(folder)!r} holds no .json or .jsonl file")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise SplitError(f"data_path {str(folder)!r} holds several data files ({names}); name one")
    return files[0]


def _read(file: Path) -> Any:
    """Return the value of a JSON file, or the list of those in a JSON Lines file."""
    try:
        text = read_text(file, "data file").removeprefix("\ufeff")
        if file.suffix.lower() != ".jsonl":
            return _parse(text, file, first_line=1)
        # Not splitlines(): a line separator inside a JSON string does not end the line.
        lines = enumerate(text.split("\n"), start=1)
        return [_parse(line, file, first_line=number) for number, line in lines if line.strip()]
    except MemoryError as error:
        raise SplitError(
            f"{str(file)!r} needs more memory than this process may take; take part of its items"
        ) from error


def _refuse_long(items: Sequence[Any], file: Path) -> None:
    if file.stat().st_size <= _MOST_CHARS:
        return
    for number, item in enumerate(items, start=1):
        size = len(json.dumps(item, ensure_ascii=False))
        if size > _MOST_CHARS:
            raise SplitError(
                f"{str(file)!r}: item {number} has {size:,} characters, more than any model reads; "
                "shorten it, or take it out"
            )


def _parse(text: str, file: Path, first_line: int) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise SplitError(
            f"{str(file)!r}, line {line}, column {error.colno}: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise SplitError(f"{str(file)!r}, from line {first_line}: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value; write null, or leave the key out")


def _as_list(value: Any, file: Path) -> list[Any]:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise SplitError(f"{str(file)!r} holds a {_kind(value)}; a list or an object is needed")
    rows = value.get("data")
    if isinstance(rows, list):
        return rows
    return [{"id": key, **item} if isinstance(item, dict) else item for key, item in value.items()]


def _kind(value: Any) -> str:
    names = {dict: "JSON object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


# Loaders that plan the batches of a run over data on disk.
#
# Source: SkillOpt (microsoft/SkillOpt), ``datasets/base.py``. Splits, shuffles, batches and seeds
# are equal to SkillOpt's; what it ignores silently is an error here.


_log = logging.getLogger(__name__)

SPLIT_MODES = ("ratio", "split_dir")
GENERATED_FOLDER = "_generated_splits"
_SETTINGS = (
    *("split_dir", "data_path", "split_mode", "split_ratio", "split_seed", "split_output_dir"),
    *("seed", "limit"),
)
_UNGIVEN = 42  # default seed of a loader


class BaseDataLoader(ABC):
    """Plans batches from seeds alone; a loader over data is a `SplitDataLoader`."""

    def setup(self, cfg: dict[str, Any]) -> None:
        """Receive the run's flat configuration, once, before planning."""
        del cfg

    def set_out_root(self, out_root: str) -> None:
        """Receive the run's output folder, before `setup`."""
        del out_root

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: none, because planning only needs seeds."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        del state

    def get_train_size(self) -> int | None:
        """Return the number of train items, or ``None`` if unknown."""
        return None

    @staticmethod
    def make_base_seeds(steps_per_epoch: int, accumulation: int, seed: int) -> list[int]:
        """Return one seed per micro-batch of an epoch: ``seed + 1``, ``seed + 2``, ..."""
        return [seed + index + 1 for index in range(steps_per_epoch * accumulation)]

    @staticmethod
    def shuffle_epoch_seeds(base_seeds: Sequence[int], epoch: int, seed: int) -> list[int]:
        """Return the base seeds in the order of an epoch, from 1."""
        return shuffled(base_seeds, seed + epoch * EPOCH_STRIDE)

    def plan_train_epoch(
        self,
        *,
        epoch: int,
        steps_per_epoch: int,
        accumulation: int,
        batch_size: int,
        seed: int,
        **kwargs: Any,
    ) -> list[BatchSpec]:
        """Plan an epoch: ``steps_per_epoch * accumulation`` batches, one per shuffled seed."""
        base_seeds = self.make_base_seeds(steps_per_epoch, accumulation, seed)
        return [
            self.build_train_batch(batch_size=batch_size, seed=batch_seed, **kwargs)
            for batch_seed in self.shuffle_epoch_seeds(base_seeds, epoch, seed)
        ]

    @abstractmethod
    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        """Build one train batch."""

    @abstractmethod
    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        """Build one evaluation batch of ``env_num`` episodes; 0 means the whole split."""


class SplitDataLoader(BaseDataLoader):
    """A data set on disk, with splits train, val and test.

    `setup` reads the items. The configuration fills arguments that are empty or 0. Unknown
    keyword arguments are ignored.

    Args:
        split_dir: A folder with ``train/``, ``val/`` and ``test/``, for mode ``split_dir``.
        data_path: One data file, or a folder that holds one, for mode ``ratio``.
        split_mode: ``ratio`` or ``split_dir``.
        split_ratio: Weights of train, val and test; blank, those of `setup`, or 2:1:7.
        split_seed: Seed of the split; 0 means ``seed``.
        split_output_dir: Folder for a generated split. Empty means
            ``<out_root or the working folder>/_generated_splits/<env>_<2-1-7>_seed<split_seed>``.
        seed: Seed of the run.
        limit: Maximum items of every split, or by split name; 0 keeps all.

    Attributes:
        train_items: Training items; like all attributes, empty before `setup`.
        manifest: Settings of the split, and per split counts, ids and SHA-256 of all its items
            (``None`` if they are no JSON), regardless of ``limit``.
    """

    def __init__(  # noqa: PLR0913 - the documented constructor, which adapters call by keyword
        self,
        split_dir: str = "",
        data_path: str = "",
        split_mode: str = "ratio",
        split_ratio: str = "2:1:7",
        split_seed: int = 42,
        split_output_dir: str = "",
        seed: int = 42,
        limit: int | Mapping[str, int] = 0,
        **kwargs: Any,
    ) -> None:
        del kwargs
        self.split_dir = split_dir
        self.data_path = data_path
        self.split_mode = split_mode
        self.split_ratio = split_ratio or ""
        self.split_seed = split_seed
        self.split_output_dir = split_output_dir
        self.seed = seed
        self.limit = limit
        self.out_root = ""
        self.env_name = type(self).__name__.removesuffix("DataLoader").lower()
        self.train_items: list[Item] = []
        self.val_items: list[Item] = []
        self.test_items: list[Item] = []
        self.manifest: dict[str, Any] = {}

    def set_out_root(self, out_root: str) -> None:
        """Receive the run's output folder, where generated splits are written."""
        self.out_root = str(out_root)

    def setup(self, cfg: dict[str, Any]) -> None:
        """Fill empty settings from the configuration, and read all three splits.

        Raises:
            SplitError: A setting or the data is invalid; also a ValueError.
            SplitFileMissing: A file is missing; also a FileNotFoundError.
            DataError: A file cannot be read, or is not UTF-8.
        """
        self._fill_from(cfg)
        mode = self.split_mode.strip().lower()
        if mode not in SPLIT_MODES:
            raise SplitError(
                f"split_mode must be 'ratio' or 'split_dir', not {self.split_mode!r}. "
                + did_you_mean(mode, SPLIT_MODES)
            )
        split = self._cut() if mode == "ratio" else self._read_split_dir()
        self.manifest = split_manifest(split, self._facts(mode))
        if mode == "ratio":
            self._write_generated(split)
        self.train_items, self.val_items, self.test_items = self._truncated(split)

    def get_train_size(self) -> int:
        """Return the number of train items."""
        return len(self.train_items)

    def get_split_items(self, split: str) -> list[Item]:
        """Return the items of a split, by name or alias (`canonical_split`).

        Raises:
            SplitError: The name is unknown.
        """
        split_now = Split(self.train_items, self.val_items, self.test_items)
        return dict(split_now.named())[canonical_split(split)]

    def state_dict(self) -> dict[str, Any]:
        """Return the hashes of the splits, to detect changed data on resume."""
        return {"split_sha256": self.manifest.get("sha256", {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Check that the data equals that of the checkpoint.

        Raises:
            SplitError: The items of a split changed since.
        """
        now = self.manifest.get("sha256", {})
        then = state.get("split_sha256") or now
        changed = [name for name in SPLIT_NAMES if then.get(name) != now.get(name)]
        if changed:
            raise SplitError(
                f"the data changed since the checkpoint (splits {', '.join(changed)}): results "
                "before and after could not be compared. Restore the data, or start a new run."
            )

    def load_raw_items(self, data_path: str) -> list[Item]:
        """Read the whole data set for mode ``ratio``; override for another format.

        Raises:
            DataError: The path is missing or holds no data set.
        """
        return read_raw_items(Path(data_path))

    def load_split_items(self, split_path: str) -> list[Item]:
        """Read one split's folder for mode ``split_dir``; override for another format.

        Raises:
            DataError: The folder holds no ``.json`` file, or the first one holds no list.
        """
        items, unread = read_split_folder(Path(split_path))
        if unread:
            _log.warning("%s: only the first .json file is read, not %s", split_path, unread)
        return items

    def plan_train_epoch(
        self,
        *,
        epoch: int,
        steps_per_epoch: int,
        accumulation: int,
        batch_size: int,
        seed: int,
        **kwargs: Any,
    ) -> list[BatchSpec]:
        """Plan an epoch over the train items, each once, in a seeded order.

        Micro-batches that would be empty at the end are refilled from a fresh shuffle.
        """
        del kwargs
        planned = plan_epoch(
            self.train_items,
            epoch=epoch,
            batches=steps_per_epoch * accumulation,
            batch_size=batch_size,
            seed=seed,
        )
        return [_train_batch(list(batch.items), batch.seed) for batch in planned]

    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec:
        """Build one train batch: the first ``batch_size`` items of a shuffle by ``seed``."""
        del kwargs
        return _train_batch(shuffled(self.train_items, seed)[:batch_size], seed)

    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec:
        """Build one evaluation batch: the first ``env_num`` items of a split; 0 means all.

        Raises:
            SplitError: The split's name is unknown, or ``env_num`` is negative.
        """
        del kwargs
        if env_num < 0:
            raise SplitError(f"env_num is {env_num}; give a number of items, or 0 for all")
        items = self.get_split_items(split)
        chosen = items[: env_num or len(items)]
        return BatchSpec("eval", split, seed, len(chosen), payload=own_copies(chosen))

    def _fill_from(self, cfg: Mapping[str, Any]) -> None:
        for name in _SETTINGS:
            mine, theirs = getattr(self, name), cfg.get(name)
            if not mine and theirs:
                setattr(self, name, theirs)
            elif theirs and theirs != mine and (name != "seed" or mine != _UNGIVEN):
                # A run always has a seed; a loader without one accepts it.
                _log.warning(
                    "%s=%r of the loader beats %r of the configuration", name, mine, theirs
                )
        self.split_ratio = self.split_ratio or USUAL_RATIO
        self.split_seed = self.split_seed or self.seed
        self.out_root = self.out_root or str(cfg.get("out_root") or "")
        self.env_name = str(cfg.get("env") or "") or self.env_name

    def _facts(self, mode: str) -> dict[str, Any]:
        if mode == "split_dir":
            return {"source_data_path": self.split_dir, "split_mode": mode}
        cut = {"split_ratio": self.split_ratio, "split_seed": self.split_seed}
        return {"source_data_path": self.data_path, "split_mode": mode, **cut}

    def _cut(self) -> Split:
        ratio = parse_ratio(self.split_ratio)
        # An empty path would mean the working folder.
        if not self.data_path:
            raise SplitError(
                "data_path is empty: split_mode='ratio' needs the data file, or a folder with one. "
                "For data that is split already, use split_mode='split_dir' with split_dir."
            )
        items = list(self.load_raw_items(self.data_path))
        check_items(items, repr(self.data_path))
        split = split_items(items, ratio, self.split_seed)
        refuse_empty(split, f"{self.data_path!r}, {len(items)} items at {ratio}")
        return split

    def _read_split_dir(self) -> Split:
        if not self.split_dir:
            raise SplitError(
                "split_dir is empty: split_mode='split_dir' needs a folder with train/, val/ and "
                "test/. For data that is not split yet, use split_mode='ratio' with data_path."
            )
        root = Path(self.split_dir)
        for name in SPLIT_NAMES:
            if not (root / name).is_dir():
                where = f"Missing '{name}/' subdirectory in split_dir {str(root)!r}"
                raise SplitError(f"{where}: {_next_move(root)}")
        split = Split(*(list(self.load_split_items(str(root / name))) for name in SPLIT_NAMES))
        refuse_empty(split, f"split_dir {str(root)!r}")
        refuse_overlap(split, f"split_dir {str(root)!r}")
        return split

    def _write_generated(self, split: Split) -> None:
        folder = Path(self.split_output_dir or self._default_output_dir())
        old = _old_hashes(folder / MANIFEST_NAME)
        if old and old != self.manifest["sha256"]:
            _log.warning("%s: the split differs from the one that was written before", folder)
        try:
            write_split(folder, split, self.manifest)
        except OSError as error:
            raise SplitError(
                f"the split cannot be written to {str(folder)!r}: {error.strerror}. "
                "Set split_output_dir to a folder that can be written."
            ) from error

    def _default_output_dir(self) -> Path:
        ratio = "-".join(str(weight) for weight in parse_ratio(self.split_ratio))
        name = f"{self.env_name}_{ratio}_seed{self.split_seed}"
        return Path(self.out_root or Path.cwd()) / GENERATED_FOLDER / name

    def _truncated(self, split: Split) -> Split:
        given = self.limit
        limits = given if isinstance(given, Mapping) else dict.fromkeys(SPLIT_NAMES, given)
        chosen = by_split(limits)
        kept = []
        for name, items in split.named():
            limit = chosen.get(name, 0)
            if limit < 0:
                raise SplitError(f"limit of split {name!r} is {limit}; 0 keeps all items")
            if 0 < limit < len(items):
                _log.warning("limit keeps %d of %d items of split %s", limit, len(items), name)
            kept.append(items[: limit or len(items)])
        return Split(*kept)


def _train_batch(items: list[Item], seed: int) -> BatchSpec:
    return BatchSpec("train", "train", seed, batch_size=len(items), payload=own_copies(items))


def _next_move(root: Path) -> str:
    if not root.is_dir():
        return (
            f"there is no folder {str(root.absolute())!r}. Set env.data.path to the folder that "
            "holds train/, val/ and test/; a relative path begins at the working directory."
        )
    return "put train/, val/ and test/ there, each with its items in items.json."


def _old_hashes(manifest: Path) -> Any:
    try:
        return json.loads(manifest.read_text(encoding="utf-8")).get("sha256")
    except (OSError, ValueError, AttributeError):
        return None

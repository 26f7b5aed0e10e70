"""Split rows into train, val and test, by file, column or shares; equal data gives equal splits.

A file is read twice: first to determine the split (a few bytes per row), then for the rows that
become tasks. So a million rows take little memory.
"""

import json
import logging
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from json.encoder import encode_basestring
from math import gcd
from pathlib import Path
from typing import Any, Final

import numpy as np

from skillwright.core import DataError, Task, did_you_mean
from skillwright.core.jsonio import canonical
from skillwright.datasets import Ratio, parse_ratio
from skillwright.datasets.clusters import in_cluster, near_clusters
from skillwright.datasets.evals_files import evals_in
from skillwright.datasets.rows import SUFFIXES, Row, Table, chars_in, columns_of, is_blank
from skillwright.datasets.split import near_copies, near_key
from skillwright.envs.about import TaskSplits
from skillwright.envs.table.assertions import refuse_other_rows, what_is_left_out, why_left_out
from skillwright.envs.table.functions import refuse_unusable
from skillwright.envs.table.numbers import uses_comma
from skillwright.envs.table.prompts import (
    columns_in,
    no_column,
    refuse_other_columns,
    shows_whole_rows,
)
from skillwright.envs.table.scorers import Assertions, Function, Number
from skillwright.envs.table.settings import TableSettings, read_settings

NAMES: Final = ("train", "val", "test")
EVEN: Final = "1:1:1"
MOST_TASKS: Final = 50_000
"""Maximum number of rows that may become tasks; larger tables need a limit per split."""

_SPLIT_WORDS: Final = {
    **{"train": 0, "training": 0},
    **{"val": 1, "valid": 1, "validation": 1, "dev": 1, "eval": 1, "valid_seen": 1, "selection": 1},
    **{"test": 2, "testing": 2, "valid_unseen": 2},
}
_SHOWN_CHARS: Final = 300
_SHOWN_ROWS: Final = 5
_HEAD: Final = 1000
_COMPARED: Final = 10_000  # maximum repeated rows whose answers are compared
_MOST_ROWS: Final = 50_000_000
_MOST_CHARS: Final = 500_000_000  # maximum characters of all rows that become tasks
_DEALT: Final = np.int8(-1)  # marks a row whose split is determined by shares

logger = logging.getLogger(__name__)


def find_table_tasks(data: Mapping[str, Any], env_config: object | None) -> TaskSplits:
    """Return the tasks of a ``data`` section of kind ``table``.

    Raises:
        DataError: A file is missing or damaged, a named column is missing, or a split is empty.
    """
    files = _files(data)
    # A file is read once per process, and again if it changed.
    stamps = tuple((str(file), *_stamp(file)) for file in files)
    settings = read_settings(env_config).model_dump_json(exclude_unset=True)
    found = _tasks(canonical(dict(data)), settings, stamps)
    train, val, test = (list(tasks) for tasks in found)
    return train, val, test


def _files(data: Mapping[str, Any]) -> list[Path]:
    """Return the file, or those of a folder: train, val, test."""
    folder = Path(data["path"])
    if not folder.is_dir():
        return [folder]
    if (evals := evals_in(folder)) is not None:
        return [evals]
    for other in ("ratio", "split_column"):
        if data[other] is not None:
            raise DataError(
                f"env.data.path is the folder {str(folder)!r}, with a file per split, and "
                f"env.data.{other} names another split; take one of them out"
            )
    return [_file_of(folder, split) for split in range(len(NAMES))]


def _file_of(folder: Path, split: int) -> Path:
    found = sorted(
        one
        for one in folder.iterdir()
        if one.suffix.lower() in SUFFIXES and _SPLIT_WORDS.get(one.stem.lower()) == split
    )
    if len(found) == 1:
        return found[0]
    name = NAMES[split]
    said = (
        f"two files for {name}: {found[0].name}, {found[1].name}" if found else f"none for {name}"
    )
    raise DataError(
        f"{str(folder)!r} has {said}; a folder of tables holds one file for each of train, val and "
        f"test, such as {name}.csv"
    )


def _stamp(file: Path) -> tuple[int, int]:
    if not file.is_file():
        return (0, 0)
    facts = file.stat()
    return (facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=2)
def _tasks(
    data_text: str, settings_text: str, stamps: tuple[Any, ...]
) -> tuple[tuple[Task, ...], ...]:
    data = json.loads(data_text)
    settings = TableSettings.model_validate_json(settings_text)
    limits = data["encoding"], data["max_cell_chars"], data["max_file_mb"] * 1_000_000
    plan = _Plan(data, settings, [Table(file, *limits) for file in _files(data)])
    return plan.tasks()


@dataclass(slots=True)
class _Index:
    """Question, stratum and split of every row, in order."""

    questions: Any  # digests of the prompts, uint64
    strata: Any  # digests of task type and answer, uint64
    splits: Any  # 0, 1, 2, or `_DEALT`
    starts: tuple[int, ...]  # the first row of each file

    def __len__(self) -> int:
        return len(self.questions)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Makes tasks of tables."""

    data: Mapping[str, Any]
    settings: TableSettings
    tables: Sequence[Table]

    def tasks(self) -> tuple[tuple[Task, ...], ...]:
        """Read the rows, and return the tasks of train, val and test."""
        self._check_columns()
        if isinstance(self.settings.scorer, Function):
            refuse_unusable(self.settings.scorer)
        self._warn_of_cases()
        index = self._index()
        kept = self._leave_out_repeats(index)
        if self.data["split_column"] is None and len(self.tables) == 1:
            self._deal(index)
        chosen = [self._chosen(index, at) for at in range(len(NAMES))]
        self._refuse_sizes(index, [len(rows) for rows in chosen])
        wanted = {row for rows in chosen for row in rows}
        taken = self._taken(wanted, kept)
        self._warn_of_repeats(index, kept, taken)
        names = self._names({at: taken[at] for at in wanted}, index.starts)
        comma = isinstance(self.settings.scorer, Number) and uses_comma(
            map(self.settings.right, taken.values())
        )
        tasks = tuple(
            tuple(self._task(names[at], split, taken[at], comma=comma) for at in rows)
            for split, rows in zip(NAMES, chosen, strict=True)
        )
        asked = {
            split: {task.id: self.settings.asked(task.extras["row"]) for task in tasks[at]}
            for at, split in enumerate(NAMES)
        }
        if copies := near_copies(asked):
            logger.warning("%s: %s", self._where, copies)
        clusters = self._clusters([task for held_out in tasks[1:] for task in held_out], asked)
        return tuple(tuple(in_cluster(task, clusters) for task in split) for split in tasks)

    def _clusters(
        self, tasks: Sequence[Task], asked: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        """Return the cluster of each val and test task that has one, by id."""
        rows = {task.id: task.extras["row"] for task in tasks}
        column = self.data["cluster_column"]
        if column is not None:
            named = {task_id: row.get(column) for task_id, row in rows.items()}
            return {task_id: str(one) for task_id, one in named.items() if not is_blank(one)}
        questions = {task.id: asked[task.split][task.id] for task in tasks}
        right = {task_id: self.settings.right(row) for task_id, row in rows.items()}
        said = {task_id: "" if is_blank(one) else canonical(one) for task_id, one in right.items()}
        return near_clusters(questions, said)

    @property
    def _where(self) -> str:
        return str(self.data["path"])

    def _taken(self, wanted: set[int], kept: Mapping[int, int]) -> dict[int, Row]:
        """Read the rows that become tasks, and the repeated ones whose answers are compared."""
        compared = {one for pair in islice(kept.items(), _COMPARED) for one in pair}
        taken, size = {}, 0
        for at, row in enumerate(self._rows()):
            if at in wanted or at in compared:
                taken[at] = row
                size += chars_in(row)
                if size > _MOST_CHARS:
                    raise DataError(
                        f"{self._where}: the rows up to row {at + 1} have {size:,} characters, and "
                        "all of them would be kept in memory. Take part of each split: env.data: "
                        "{train: 100, val: 100, test: 100}, or leave long columns out of the file"
                    )
        return taken

    def _rows(self) -> Iterator[Row]:
        for table in self.tables:
            yield from table.rows()

    def _check_columns(self) -> None:
        """Refuse settings that name a column that is in none of the first rows."""
        for table in self.tables:
            where = str(table.path)
            head = table.head(_HEAD)
            if not head:
                raise DataError(f"{where!r} holds no rows; add some")
            columns = columns_of(head)
            refuse_other_columns(self.settings.prompt, columns, where)
            named: dict[str, Sequence[str | None]] = {
                "env.config.answer": self.settings.hidden,
                "env.config.task_type": [self.settings.task_type],
                "env.data.split_column": [self.data["split_column"]],
                "env.data.cluster_column": [self.data["cluster_column"]],
            }
            for what, names in named.items():
                for name in names:
                    if name is not None and name not in columns:
                        raise no_column(what, name, columns, where)
            leaked = set(self.settings.hidden) & set(columns_in(self.settings.prompt))
            if leaked:
                raise DataError(
                    f"env.config.prompt shows the column {min(leaked)!r}, which is the answer; "
                    "take it out of the prompt, or name another env.config.answer"
                )

    def _index(self) -> _Index:
        settings, data = self.settings, self.data
        column = data["split_column"]
        named, whole = columns_in(settings.prompt), shows_whole_rows(settings.prompt)
        questions, strata, splits = array("Q"), array("Q"), array("b")
        blank, unasked, starts = array("L"), array("L"), []
        seed = str(data["seed"]).encode()
        for at, table in enumerate(self.tables):
            starts.append(len(questions))
            if table.path.suffix.lower() == ".parquet" and table.count() > _MOST_ROWS:
                raise _too_many(table.path)  # known before it is read
            for number, row in enumerate(table.rows(), start=1):
                right = settings.right(row)
                if self._lacks(right):
                    blank.append(number)
                if whole:
                    asked: Any = settings.asked(_with_columns(row, named))
                else:
                    asked = [row.get(name) for name in named]
                    if all(map(is_blank, asked)):
                        unasked.append(number)
                is_out = self._is_left_out(right)
                # One that is left out repeats no other.
                questions.append(_digest(_text_of([asked, number] if is_out else asked), seed))
                if len(questions) > _MOST_ROWS:
                    raise _too_many(table.path)
                kind = row.get(settings.task_type) if settings.task_type else None
                strata.append(_stratum(_text_of([kind, right])))
                is_split = len(self.tables) > 1
                split = at if is_split else _split_of(row, column, table.path, number)
                splits.append(len(NAMES) if is_out else split)
            answers = ", ".join(map(repr, settings.answer_columns))
            _refuse_blank(table.path, blank, f"have no answer in {answers}")
            _refuse_blank(table.path, unasked, f"ask nothing: {', '.join(named)} is blank")
        # The arrays are views of the buffers, without a copy.
        columns = (np.frombuffer(questions, np.uint64), np.frombuffer(strata, np.uint64))
        return _Index(*columns, np.frombuffer(splits, np.int8), tuple(starts))

    @property
    def _has_cases(self) -> bool:
        return isinstance(self.settings.scorer, Assertions)

    def _is_left_out(self, right: Any) -> bool:
        scorer = self.settings.scorer
        if not isinstance(scorer, Assertions):
            return False
        refuse_other_rows(right)
        return bool(why_left_out(right, has_judge=scorer.model is not None))

    def _warn_of_cases(self) -> None:
        """Name the cases of a skill's evals that are left out; refuse if none remains.

        Raises:
            DataError: None of the cases can be scored.
        """
        scorer = self.settings.scorer
        if not isinstance(scorer, Assertions):
            return
        rows = list(self._rows())
        lines = what_is_left_out(rows, has_judge=scorer.model is not None)
        if all(self._is_left_out(self.settings.right(row)) for row in rows):
            raise DataError(f"{self._where}: no case can be scored: {'; '.join(lines)}")
        for line in lines:
            logger.warning("%s: %s", self._where, line)

    def _lacks(self, right: Any) -> bool:
        if self.settings.may_lack_answers:
            return False
        if isinstance(self.settings.answer, str):
            return is_blank(right)
        return all(is_blank(one) for one in right.values())

    def _leave_out_repeats(self, index: _Index) -> dict[int, int]:
        """Leave out rows with equal prompts, so that no question is in two splits.

        Of equal ones, the row in test stays, else the one in val, else the first.

        Returns:
            The row that stays, by the row that is left out.
        """
        order = np.lexsort((np.arange(len(index)), -index.splits, index.questions))
        ordered = index.questions[order]
        is_repeat = np.append(False, ordered[1:] == ordered[:-1])
        stays = order[np.maximum.accumulate(np.where(is_repeat, 0, np.arange(len(order))))]
        index.splits[order[is_repeat]] = len(NAMES)  # in none
        pairs = zip(order[is_repeat].tolist(), stays[is_repeat].tolist(), strict=True)
        return dict(sorted(pairs))

    def _warn_of_repeats(
        self, index: _Index, kept: Mapping[int, int], taken: Mapping[int, Row]
    ) -> None:
        """Name the rows that were left out, and those that contradict the row that stays."""
        right = {
            at: near_key(canonical(self.settings.right(taken[at])))
            for pair in kept.items()
            if pair[0] in taken
            for at in pair
        }
        differ = [at for at, other in kept.items() if at in right and right[at] != right[other]]
        if differ and not self.settings.may_lack_answers:
            shown = "; ".join(
                f"{self._place(index, at)} says {self._answer(taken[at])}, and "
                f"{self._place(index, kept[at])} says {self._answer(taken[kept[at]])}"
                for at in differ[:_SHOWN_ROWS]
            )
            logger.warning(
                "%s: conflicting answers to one question in %s: %s%s. Only the second of each "
                "pair is used; correct the wrong one",
                self._where,
                _counted(len(differ)),
                shown,
                "; ..." if len(differ) > _SHOWN_ROWS else "",
            )
        same = sorted(kept.keys() - set(differ))
        if same:
            logger.warning(
                "%s: %s left out that repeat another row's question: %s%s",
                self._where,
                _counted(len(same)),
                ", ".join(self._place(index, at) for at in same[:_SHOWN_ROWS]),
                ", ..." if len(same) > _SHOWN_ROWS else "",
            )

    def _place(self, index: _Index, at: int) -> str:
        file = bisect_right(index.starts, at) - 1
        name = f"{self.tables[file].path.name} " if len(self.tables) > 1 else ""
        return f"{name}row {at + 1 - index.starts[file]}"

    def _answer(self, row: Row) -> str:
        right = self.settings.right(row)
        text = (
            "; ".join(one["text"] for one in right["checks"])
            if self._has_cases
            else canonical(right)
        )
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."

    def _deal(self, index: _Index) -> None:
        """Assign rows to splits by shares, stratified by task type and answer."""
        free = np.flatnonzero(index.splits == _DEALT)
        order = free[np.lexsort((index.questions[free], index.strata[free]))]
        pattern = np.array(
            dealing_pattern(parse_ratio(self.data["ratio"] or EVEN, least=0)), dtype=np.int8
        )
        index.splits[order] = pattern[np.arange(len(order)) % len(pattern)]

    def _chosen(self, index: _Index, split: int) -> list[int]:
        """Return the requested number of rows of a split, with answers spread evenly."""
        rows = np.flatnonzero(index.splits == split)
        rows = rows[np.lexsort((index.questions[rows], index.strata[rows]))]
        most = self.data[NAMES[split]]
        if most is not None and most < len(rows):
            # Spread evenly over the answers.
            rows = rows[np.arange(most) * len(rows) // most]
        return [int(row) for row in rows[np.argsort(index.questions[rows], kind="stable")]]

    def _refuse_sizes(self, index: _Index, sizes: Sequence[int]) -> None:
        where = self._where
        counts = ", ".join(f"{count} {name}" for name, count in zip(NAMES, sizes, strict=True))
        if sum(sizes) > MOST_TASKS:
            raise DataError(
                f"{where}: {len(index):,} rows would be {sum(sizes):,} tasks, and at most "
                f"{MOST_TASKS:,} are taken. Take part of each split: env.data: {{train: 1000, val: "
                "500, test: 1000}"
            )
        shares = parse_ratio(self.data["ratio"] or EVEN, least=0)
        parts = zip(NAMES, shares, sizes, strict=True)
        empty = next((name for name, share, size in parts if share and not size), None)
        if empty is not None:
            column = self.data["split_column"]
            move = "Add rows, or divide them by another env.data.ratio, such as 1:1:1"
            if column is not None:
                move = f"Add rows whose {column!r} is {empty}, or take env.data.split_column out"
            elif len(self.tables) > 1:
                move = "Add rows that no other file has"
            repeats = np.count_nonzero(index.splits == len(NAMES))
            why = "repeat another row's question" + " or are left out" * self._has_cases
            also = f", {repeats:,} of which {why}" if repeats else ""
            raise DataError(
                f"{where}: no row is left for {empty} ({counts}, of {len(index):,} rows{also}). "
                f"{move}"
            )

    def _names(self, rows: Mapping[int, Row], starts: Sequence[int]) -> dict[int, str]:
        """Name tasks by the column ``id`` if its values are unique, else by row number."""
        own = {at: str(row.get("id") or "").strip() for at, row in rows.items()}
        if all(own.values()) and len(set(own.values())) == len(own):
            return own
        if len(starts) == 1:
            return {at: f"row-{at + 1}" for at in rows}
        files = {at: bisect_right(starts, at) - 1 for at in rows}
        return {at: f"{NAMES[file]}-{at + 1 - starts[file]}" for at, file in files.items()}

    def _task(self, name: str, split: str, found: Row, *, comma: bool) -> Task:
        settings = self.settings
        row = _with_columns(found, columns_in(settings.prompt))
        try:
            asked = settings.asked(row)
            right = settings.right(row)
            if right is not None and hasattr(settings.scorer, "check"):
                settings.scorer.check(right)
            canonical(row).encode()
        except (DataError, UnicodeError) as error:
            raise DataError(f"{self.tables[0].path}, {name}: {error}") from error
        if not asked:
            raise DataError(f"{self.tables[0].path}, {name}: the prompt is empty; fill the row in")
        kind = row.get(settings.task_type) if settings.task_type else None
        types_tell = settings.task_type in settings.answer_columns
        return Task(
            id=name,
            env="table",
            extras={
                "row": row,
                **({"answer_is_type": True} if types_tell else {}),
                **({"decimal_comma": True} if comma else {}),
            },
            task_type="" if kind is None else str(kind),
            description=asked[:_SHOWN_CHARS],
            split=split,
        )


def dealing_pattern(ratio: Ratio) -> list[int]:
    """Return the split of each row of a round: ``2:1:1`` gives ``[0, 1, 2, 0]``.

    Every prefix of a round is as close to the shares as possible.
    """
    shared = gcd(*ratio)
    weights = [weight // shared for weight in ratio]
    total, given, pattern = sum(weights), Counter[int](), []
    for at in range(1, total + 1):
        behind = [weights[one] * at - given[one] * total for one in range(len(weights))]
        pattern.append(behind.index(max(behind)))
        given[pattern[-1]] += 1
    return pattern


def _too_many(path: Path) -> DataError:
    return DataError(
        f"{str(path)!r} has more than {_MOST_ROWS:,} rows; take part of them into a file of its own"
    )


def _counted(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"


def _refuse_blank(path: Path, rows: Sequence[int], problem: str) -> None:
    if rows:
        shown = ", ".join(map(str, rows[:_SHOWN_ROWS]))
        shown += ", ..." if len(rows) > _SHOWN_ROWS else ""
        raise DataError(
            f"{str(path)!r}: {len(rows)} of its rows {problem}: rows {shown}, counted from 1 "
            "without a header. Fill them in, or take them out"
        )


def _with_columns(row: Row, names: Sequence[str]) -> Row:
    """Return a row with all of these columns; missing ones have no value."""
    return row if row.keys() >= set(names) else {**dict.fromkeys(names), **row}


def _split_of(row: Row, column: str | None, path: Path, number: int) -> int:
    if column is None:
        return int(_DEALT)
    word = str(row.get(column) or "").strip().lower()
    if word not in _SPLIT_WORDS:
        near = did_you_mean(word, NAMES) if word else "Write train, val or test."
        raise DataError(f"{str(path)!r}, row {number}: {column!r} is {word!r}, no split. {near}")
    return _SPLIT_WORDS[word]


def _text_of(value: Any) -> str:
    """Return the canonical JSON of a value, with a fast path for lists of texts."""
    if isinstance(value, list) and all(type(one) is str for one in value):
        return f"[{','.join(map(encode_basestring, value))}]"
    return canonical(value)


def _digest(text: str, key: bytes = b"0") -> int:
    found = blake2b(text.encode(errors="replace"), digest_size=8, key=key)
    return int.from_bytes(found.digest())


_stratum = lru_cache(maxsize=4096)(_digest)

"""Inspect a table, and draft the configuration of a training, for a person to revise."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.core.fence import one_line
from skillwright.core.jsonio import dumps
from skillwright.datasets.rows import Row, Table, chars_in, columns_of, is_blank
from skillwright.envs.table.prompts import placeholder, quoted
from skillwright.envs.table.scorers import as_number, as_text, listed

SCORERS: Final = ("exact", "one_of", "contains", "regex", "number", "json", "f1")
"""The scorers that `init` offers; a judge and a function need further settings."""

_LOOKED_AT: Final = 5000
_LOOKED_AT_CHARS: Final = 50_000_000
_MOST_COLUMNS: Final = 1000
_LONGEST_NAME: Final = 60
_MANY_ROWS: Final = 3000
_MOST_LABELS: Final = 20
_MOST_LINES: Final = 8
_LONG_WORDS: Final = 8
_MOST_HOLD: Final = 0.9
_ANSWER_NAMES: Final = (
    *("answer", "answers", "label", "labels", "target", "expected", "expected_output", "gold"),
    *("output", "completion", "class", "category", "intent", "sentiment", "queue", "y"),
)
_ID_NAMES: Final = re.compile(r"(.*[_ ])?(id|uuid|index|key|nr|no)", re.IGNORECASE)
_WORKED: Final = re.compile(
    r"(.*[_ ])?(solution|explanation|rationale|reasoning|cot|answer|response|completion)s?",
    re.IGNORECASE,
)
_SPLIT_NAMES: Final = ("split", "subset")
_YAML_WORDS: Final = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})
_SPLIT_VALUES: Final = frozenset({"train", "training", "val", "valid", "validation", "dev", "test"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column, as seen in the first rows.

    Attributes:
        name: Its name.
        kind: ``text``, ``number``, ``list`` or ``object``.
        distinct: Number of different values.
        blank: Number of rows without a value.
        words: Average number of words of a value.
        example: The first value.
    """

    name: str
    kind: str
    distinct: int
    blank: int
    words: float
    example: str


@dataclass(frozen=True, slots=True)
class Look:
    """The content of a table.

    Attributes:
        table: The file.
        rows: Total number of rows.
        columns: Its columns, as seen in the first rows.
        head: The first rows.
        split_column: The column that says which rows are for train, val and test, or ``None``.
    """

    table: Table
    rows: int
    columns: tuple[Column, ...]
    head: tuple[Row, ...]
    split_column: str | None

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            DataError: There is none of this name; the message names the nearest.
        """
        found = next((one for one in self.columns if one.name == name), None)
        if found is None:
            near = did_you_mean(name, [one.name for one in self.columns])
            raise DataError(f"{str(self.table.path)!r} has no column {name!r}. {near}")
        return found

    @property
    def answer(self) -> str:
        """The column that probably holds the right answer: by name, few values, or position."""
        by_name = {one.name.lower(): one.name for one in self.columns}
        named = [by_name[name] for name in _ANSWER_NAMES if name in by_name]
        few = [one.name for one in self.columns if self._is_class(one)]
        return next(iter([*named, *few[::-1], self.columns[-1].name]))

    def shown(self, answers: Sequence[str]) -> list[str]:
        """Return the columns that an agent should read: all but answers, ids and splits."""
        others = [one for one in self.columns if one.name not in (*answers, self.split_column)]
        telling = [one.name for one in others if not self._is_id(one)]
        telling = telling or [one.name for one in others]
        return [name for name in telling if not self.tells(name, answers)] or telling

    def tells(self, name: str, answers: Sequence[str]) -> bool:
        """Tell whether a column says the answer: as another name of the classes, or worked out."""
        if len(answers) > 1:
            return False
        column, classes = self.column(name), self.labels(answers[0])
        pairs = [
            (str(row.get(name)).strip(), str(row.get(answers[0])).strip()) for row in self.head
        ]
        if all(given == answer for given, answer in pairs):
            return True
        if classes and self._is_class(column):
            return len({len(set(one)) for one in (pairs, *zip(*pairs, strict=True))}) == 1
        held = sum(answer.casefold() in given.casefold() for given, answer in pairs)
        return bool(_WORKED.fullmatch(name)) and held >= _MOST_HOLD * len(pairs)

    def scorer(self, answer: str) -> str:
        """Return the name of the scorer for the values of an answer column."""
        column = self.column(answer)
        if column.kind in ("list", "object"):
            return {"list": "one_of", "object": "json"}[column.kind]
        if column.kind == "number" and not self._is_class(column):
            return "number"
        return "f1" if column.words > _LONG_WORDS else "exact"

    def task_type(self, answer: str, *, look_further: bool) -> str:
        """Return the column by which results are shown: the answer's, or "".

        With ``look_further``, another column of classes if the answers are no classes.
        """
        if self.labels(answer) or not look_further:
            return answer if self.labels(answer) else ""
        return next((one.name for one in self.columns if self._is_class(one)), "")

    def labels(self, answer: str) -> list[str]:
        """Return the classes in a column, sorted; none if its values are no classes."""
        if not self._is_class(self.column(answer)):
            return []
        values = [row.get(answer) for row in self.head]
        return sorted({as_text(one).strip() for one in values if not is_blank(one)})

    def fields(self, answer: str) -> list[str]:
        """Return the keys of the JSON objects that a column holds, by first appearance."""
        objects = (_object(row.get(answer)) for row in self.head)
        return list(dict.fromkeys(key for found in objects if found for key in found))

    def repeats(self, answer: str) -> bool:
        """Tell whether a column has its values at least twice on average."""
        column = self.column(answer)
        return 2 * column.distinct <= len(self.head) - column.blank

    def _is_class(self, column: Column) -> bool:
        few = min(_MOST_LABELS, len(self.head) / 3)
        return column.kind in ("text", "number") and 2 <= column.distinct <= few

    def _is_id(self, column: Column) -> bool:
        unique = column.distinct == len(self.head) and column.words <= 1
        return unique and (column.kind == "number" or bool(_ID_NAMES.fullmatch(column.name)))


def look_at(table: Table) -> Look:
    """Inspect a table: its columns in the first rows, and the number of rows.

    Raises:
        DataError: The file is damaged or empty, or has no answer column besides the question.
    """
    head = tuple(_first(table.rows()))
    names = columns_of(head)
    where = repr(str(table.path))
    if not head:
        raise DataError(f"{where} holds no rows; add some")
    if len(names) < 2:
        found = f"one column, {names[0]!r}" if names else "no column"
        raise DataError(
            f"{where} has {found}; a table to train on has one for the question and one for the "
            "right answer"
        )
    if len(names) > _MOST_COLUMNS:
        raise DataError(
            f"{where} has {len(names):,} columns, and at most {_MOST_COLUMNS:,} are read. Remove "
            "those that no agent needs"
        )
    columns = tuple(_column(name, head) for name in names)
    count = table.count()
    return Look(table, count, columns, head, _split_column(table, head, count))


def _split_column(table: Table, head: Sequence[Row], count: int) -> str | None:
    # All rows are read, because files are often sorted by split.
    rows = head if len(head) == count else None
    named = (name for name in columns_of(head) if name.lower() in _SPLIT_NAMES)
    return next((name for name in named if _names_splits(name, rows or table.rows())), None)


def _names_splits(name: str, rows: Iterable[Row]) -> bool:
    found = set()
    for row in rows:
        value = str(row.get(name)).strip().lower()
        if value not in _SPLIT_VALUES:
            return False
        found.add(value)
    return len(found) >= 3


def _first(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the first rows, of bounded number and size."""
    size = 0
    for row in islice(rows, _LOOKED_AT):
        yield row
        size += chars_in(row)
        if size > _LOOKED_AT_CHARS:
            return


def refuse_missing_header(look: Look) -> None:
    """Refuse a first line that looks like a row.

    Raises:
        DataError: It does, and the answer's column was not named.
    """
    for one in look.columns:
        values = [str(row.get(one.name) or "").strip() for row in look.head]
        is_value = values.count(one.name) > 0 or len(one.name.split()) > _LONG_WORDS
        is_number = as_number(one.name) is not None and one.kind == "number"
        if is_value or is_number:
            raise DataError(
                f"the first line of {str(look.table.path)!r} looks like a row, not like names of "
                f"columns: {', '.join(repr(c.name) for c in look.columns)}. Put a line with names "
                "above it, such as text,label; or, if these are names, say --answer COLUMN"
            )


def draft(
    look: Look, answers: Sequence[str], shown: Sequence[str], scorer: str, task_type: str
) -> dict[str, Any]:
    """Return ``env.config`` for a table.

    Args:
        look: The table.
        answers: The columns of the right answer; several are the fields of a JSON object.
        shown: The columns that the agent reads.
        scorer: Name of the scorer.
        task_type: The column by which results are shown, or "".
    """
    answer, *others = answers
    fields = answers if others else look.fields(answer)
    labels = look.labels(answer) if scorer in ("exact", "contains") or ":" in scorer else []
    if any("{" in label or "," in label or not label.isprintable() for label in labels):
        labels = []  # their list in the prompt would be ambiguous
    config: dict[str, Any] = {
        "prompt": _prompt(shown, labels, scorer, fields),
        "answer": list(answers) if others else answer,
        "scorer": scorer,
    }
    if task_type:
        config["task_type"] = task_type
    return config


def most_tasks(look: Look) -> dict[str, int]:
    """Return maximum sizes of the splits, for a table with more rows than a training needs."""
    return {"train": 300, "val": 200, "test": 500} if look.rows > _MANY_ROWS else {}


def written(config: dict[str, Any], data: dict[str, Any], models: Sequence[str], why: str) -> str:
    """Return a configuration as commented YAML of at most 25 lines.

    Args:
        config: ``env.config``.
        data: ``env.data``.
        models: The lines of the sections about models.
        why: How the rows are split, in words.
    """
    notes = {
        "answer": "the column with the right answer; the agent never sees it",
        "scorer": "or one_of, contains, regex, number, json, f1, judge, file.py:function",
        "task_type": "the column by which results are shown",
    }
    settings = [f"    {name}: {_scalar(config[name])}" for name in notes if name in config]
    widest = max(map(len, settings))
    remarks = [notes[name] for name in notes if name in config]
    return "\n".join(
        [
            "# Train with: skillwright train, then the name of this file",
            "env:",
            "  name: table",
            "  config:",
            "    # What the agent reads of a row: {{ ... }} is a column",
            "    prompt: |",
            *(f"      {line}".rstrip() for line in config["prompt"].splitlines()),
            *(f"{line:{widest}}  # {note}" for line, note in zip(settings, remarks, strict=True)),
            f"  data: {mapping(data)}  # {why}",
            *models,
            "",
        ]
    )


def _prompt(shown: Sequence[str], labels: Sequence[str], scorer: str, fields: Sequence[str]) -> str:
    if len(shown) == 1:
        lines = [placeholder(shown[0])]
    else:
        # A brace in a name must not become template syntax.
        titles = [
            one_line(name, _LONGEST_NAME).replace("{", "(").replace("}", ")") for name in shown
        ]
        named = [f"{title}: {placeholder(name)}" for title, name in zip(titles, shown, strict=True)]
        lines = named if len(named) <= _MOST_LINES else ["; ".join(named)]
    if labels:
        lines.append(f"Answer with one of: {', '.join(labels)}")
    if scorer == "number":
        lines.append("Answer with a number.")
    if scorer == "json" and fields:
        # Braces would be template syntax.
        keys = ", ".join(json.dumps(one, ensure_ascii=False) for one in fields[:_MOST_LABELS])
        plain = keys.replace("{", "(").replace("}", ")")
        lines.append(f"Answer with one JSON object with the keys {plain}.")
    return "\n".join(lines)


def _column(name: str, head: Iterable[Row]) -> Column:
    values = [row.get(name) for row in head]
    given = [value for value in values if not is_blank(value)]
    texts = [value if isinstance(value, str) else dumps(value) for value in given]
    words = sum(len(text.split()) for text in texts) / max(len(texts), 1)
    blank = len(values) - len(given)
    return Column(name, _kind(given), len(set(texts)), blank, words, texts[0] if texts else "")


def _kind(values: Sequence[Any]) -> str:
    """Return the kind of a column by its non-blank values; see `Column`."""
    if not values:
        return "text"
    if all(isinstance(value, list) or listed(value) for value in values):
        return "list"
    if all(_object(value) is not None for value in values):
        return "object"
    if all(as_number(value) is not None for value in values):
        return "number"
    return "text"


def _object(value: Any) -> dict[str, Any] | None:
    """Return the object in a cell, which may be JSON text."""
    found = value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def mapping(values: dict[str, Any]) -> str:
    """Write a flat mapping on one line of YAML."""
    return "{" + ", ".join(f"{name}: {_scalar(value)}" for name, value in values.items()) + "}"


def _scalar(value: Any) -> str:
    """Write a value so that YAML reads it back as it is."""
    is_word = isinstance(value, str) and re.fullmatch(r"(\.{0,2}/)?[A-Za-z_][\w./ -]*", value)
    if is_word and value.lower() not in _YAML_WORDS:
        return value if value == value.strip() else quoted(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value)

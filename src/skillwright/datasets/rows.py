"""Read rows of CSV, TSV, JSON, JSON Lines and Parquet files one by one.

Nothing is guessed that could change a row's content: a file that is damaged, too large, of another
kind than its suffix, or in an unknown encoding is refused, with the position and advice. CSV cells
are strings.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import yaml

from skillwright.core import DataError, did_you_mean
from skillwright.datasets.encodings import encoding_of, not_decodable, refuse_other_kind
from skillwright.datasets.evals_files import eval_row, eval_rows
from skillwright.datasets.parquet import INSTALL_PARQUET as INSTALL_PARQUET
from skillwright.datasets.parquet import cell_too_long, file_too_large, parquet_count, parquet_rows

Row = dict[str, Any]

_EXCEL_TEXT: Final = re.compile(r'\A="([^"]*)"\Z')
"""A cell that is text for Excel, such as ``="00123"``."""
SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
EVALS_SUFFIXES: Final = (".yaml", ".yml")
"""Files that are read only if they hold the evals of a skill."""
MOST_CHARS: Final = 1_000_000

_ROW_IN_CELLS: Final = 8  # maximum length of a row, in maximum lengths of a cell
_JSON_BYTES: Final = 100_000_000
_YAML_BYTES: Final = 3_000_000
_DEEPEST: Final = 100
_DELIMITERS: Final = (",", ";", "\t", "|")
_UNNAMED: Final = "index"  # name for the index, which pandas writes first and without a name
_NAMED_DELIMITER: Final = re.compile(r'\ufeff?"?sep=(.)"?[\r\n]*', re.IGNORECASE)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_LAST_KEY: Final = re.compile(r'"((?:[^"\\]|\\.){1,200})"\s*:')


@dataclass(frozen=True, slots=True)
class Table:
    """A file of rows.

    Attributes:
        path: The file; its suffix is its format.
        encoding: Encoding of text; ``None``: UTF-8 or that of the byte order mark.
        most_chars: Maximum characters of a cell. A row may have eight times as many.
        most_bytes: Maximum uncompressed size of the file; ``None``: unlimited.

    Raises:
        DataError: The file is missing, or its suffix is not in `SUFFIXES`.
    """

    path: Path
    encoding: str | None = None
    most_chars: int = MOST_CHARS
    most_bytes: int | None = None

    def __post_init__(self) -> None:
        suffix = self.path.suffix.lower()
        if suffix not in (*SUFFIXES, *EVALS_SUFFIXES):
            move = "Unpack it. " if suffix in (".gz", ".zip", ".bz2", ".zst", ".xz") else ""
            move = "Save the sheet as CSV. " if suffix in (".xlsx", ".xls", ".ods") else move
            raise DataError(
                f"{str(self.path)!r} is not read as a table: it ends in {suffix or 'nothing'!r}. "
                f"{move}Give a file that ends in {', '.join(SUFFIXES)}"
            )
        if not self.path.is_file():
            names = [one.name for one in self.path.parent.glob("*") if one.suffix in SUFFIXES]
            near = f". {did_you_mean(self.path.name, names)}" if names else ""
            raise DataError(f"there is no file {str(self.path)!r} in {str(Path.cwd())!r}{near}")

    def rows(self) -> Iterator[Row]:
        """Read the rows in order, one at a time.

        Raises:
            DataError: The file is damaged or too large; the message has the position and advice.
        """
        refuse_other_kind(self.path)
        size = self.path.stat().st_size
        if self.most_bytes is not None and size > self.most_bytes:
            raise file_too_large(self.path, self.most_bytes)
        try:
            match self.path.suffix.lower():
                case ".csv" | ".tsv":
                    yield from self._cells()
                case ".parquet":
                    yield from parquet_rows(self.path, self.most_chars, self.most_bytes)
                case ".json" | ".yaml" | ".yml":
                    yield from self._document(size)
                case _:
                    yield from self._json_lines()
        except MemoryError as error:
            raise DataError(
                f"{str(self.path)!r} needs more memory than this process may take. Shorten its "
                "cells, or take part of its rows"
            ) from error

    def count(self) -> int:
        """Count the rows, without reading those of JSON Lines and Parquet."""
        match self.path.suffix.lower():
            case ".parquet":
                return parquet_count(self.path)
            case ".jsonl" | ".ndjson":
                return sum(1 for _ in self._json_texts())
            case _:
                return sum(1 for _ in self.rows())

    def head(self, most: int) -> list[Row]:
        """Return the first rows."""
        return list(islice(self.rows(), most))

    def _cells(self) -> Iterator[Row]:
        records = self._records()
        try:
            line, header = next(records, (0, []))
        except _TooLong as error:
            raise DataError(
                f"{str(self.path)!r}: its first line, which names the columns, has more than "
                f"{len(error.text) - 1:,} characters, or a quote in it is never closed"
            ) from error
        if not header:
            raise DataError(f"{str(self.path)!r} is empty; its first line names the columns")
        width = len(header)
        # Excel writes the separators of empty columns.
        while not header[-1].strip():
            header.pop()
        names = self._names(header)
        number = 1
        try:
            for line, cells in records:
                if len(cells) != width:
                    raise DataError(
                        f"{str(self.path)!r}, line {line}: {len(cells)} cells under a header of "
                        f"{width} columns ({_listed(names)}). A cell that holds the separator "
                        'or a line break must be in "double quotes"'
                    )
                for at, cell in enumerate(cells[len(names) :], start=len(names) + 1):
                    if cell.strip():
                        raise DataError(
                            f"{str(self.path)!r}, line {line}: {_shown(cell)} is in column {at}, "
                            "which has no name in the first line. Name the column, or empty it"
                        )
                yield dict(zip(names, cells, strict=False))
                number += 1
        except _TooLong as error:
            raise self._too_long(error, names, number) from error

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Read the records that are not empty, with the numbers of their last lines."""
        csv.field_size_limit(self.most_chars)
        encoding = encoding_of(self.path, self.encoding)
        with self.path.open(encoding=encoding, newline="") as file:
            lines = _Lines(file, _ROW_IN_CELLS * self.most_chars)
            try:
                delimiter = self._delimiter(lines)
                reader = csv.reader(lines, delimiter=delimiter, strict=True)
                lines.begin()
                for cells in reader:
                    lines.begin()
                    if any(map(str.strip, cells)):
                        yield lines.number, [_EXCEL_TEXT.sub(r"\1", cell) for cell in cells]
            except csv.Error as error:
                if "field limit" in str(error):
                    raise _TooLong(lines.held, delimiter) from error
                raise DataError(
                    f"{str(self.path)!r}, line {lines.begun}: {error}. Look for a double "
                    'quote that is never closed; one inside a quoted cell is written twice: ""'
                ) from error
            except UnicodeError as error:
                raise not_decodable(self.path, encoding, error) from error

    def _too_long(self, error: "_TooLong", names: Sequence[str], row: int) -> DataError:
        """Return the error about a cell that is too long, or about an earlier unclosed quote."""
        csv.field_size_limit(len(error.text) + 1)
        cells = next(csv.reader([error.text], delimiter=error.delimiter), [""])
        at = max(range(len(cells)), key=lambda one: len(cells[one]))
        column = names[min(at, len(names) - 1)]
        problem = cell_too_long(self.path, str(row), column, len(cells[at]))
        if "\n" in cells[at]:
            return DataError(f"{problem}. Look for a double quote before it that is never closed")
        return problem

    def _delimiter(self, lines: "_Lines") -> str:
        """Return the delimiter of cells; skip the line ``sep=;`` that Excel writes."""
        first = next((line for line in lines if line.strip()), "")
        if named := _NAMED_DELIMITER.fullmatch(first):
            return named[1]
        lines.give_back(first)
        bare = re.sub(r'"[^"]*"', "", first)
        if self.path.suffix.lower() == ".tsv" and "\t" in bare:
            return "\t"
        return max(_DELIMITERS, key=bare.count)

    def _names(self, header: Sequence[str]) -> list[str]:
        names = [name.strip() for name in header]
        if names and not names[0] and _UNNAMED not in names:
            names[0] = _UNNAMED
        for at, name in enumerate(names, start=1):
            if not name:
                raise DataError(
                    f"{str(self.path)!r}: column {at} has no name in the first line "
                    f"({_shown(header)}). The first line names every column"
                )
        double = next((name for name, count in Counter(names).items() if count > 1), None)
        if double is not None:
            places = " and ".join(str(at) for at, one in enumerate(names, 1) if one == double)
            raise DataError(
                f"{str(self.path)!r}: columns {places} are both called {double!r}; rename one"
            )
        return names

    def _document(self, size: int) -> Iterator[Row]:
        is_yaml = self.path.suffix.lower() in EVALS_SUFFIXES
        if size > (most := _YAML_BYTES if is_yaml else _JSON_BYTES):
            raise DataError(
                f"{str(self.path)!r} is larger than {most // 1_000_000} MB and would be "
                "read at once. Write it as JSON Lines, an object per line, which is read row by row"
            )
        encoding = encoding_of(self.path, self.encoding)
        try:
            text = self.path.read_text(encoding=encoding)
        except UnicodeError as error:
            raise not_decodable(self.path, encoding, error) from error
        found = self._yaml(text) if is_yaml else self._parsed(text, "")
        if (cases := eval_rows(found, self.path)) is not None:
            yield from cases
            return
        if is_yaml:
            raise DataError(
                f"{str(self.path)!r} holds no evals of a skill; a list of scenarios, each with a "
                "prompt and assertions, is expected"
            )
        rows = _rows_in(found) if isinstance(found, Mapping) else found
        if not isinstance(rows, list):
            raise DataError(
                f"{str(self.path)!r} holds no list of rows; write [{{...}}, {{...}}], or one "
                "object per line into a file that ends in .jsonl"
            )
        for number, row in enumerate(rows, start=1):
            yield self._object(row, f"row {number}", size > self.most_chars)

    def _yaml(self, text: str) -> Any:
        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            said = " ".join(str(error).split())
            raise DataError(f"{str(self.path)!r} is no YAML: {said}") from error

    def _json_lines(self) -> Iterator[Row]:
        for number, line in self._json_texts():
            where = f"line {number}"
            row = self._object(self._parsed(line, f", {where}"), where, len(line) > self.most_chars)
            yield eval_row(row, self.path, number) or row

    def _json_texts(self) -> Iterator[tuple[int, str]]:
        """Read the lines that are not blank, with their numbers."""
        encoding = encoding_of(self.path, self.encoding)
        with self.path.open(encoding=encoding) as file:
            lines = _Lines(file, _ROW_IN_CELLS * self.most_chars)
            try:
                for line in lines:
                    lines.begin()
                    if line.strip():
                        yield lines.number, line
            except UnicodeError as error:
                raise not_decodable(self.path, encoding, error) from error
            except _TooLong as error:
                keys = _LAST_KEY.findall(error.text)
                column = keys[-1] if keys else "?"
                row = str(lines.number)
                raise cell_too_long(self.path, row, column, len(error.text)) from error

    def _parsed(self, text: str, where: str) -> Any:
        try:
            found = json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=_each_key_once,
            )
            if _SURROGATE.search(text):
                json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start]).strip("'")
            raise DataError(
                f"{str(self.path)!r}{where}: {half} is one half of a character, and the other half "
                "is missing; correct it, or take it out"
            ) from error
        except RecursionError as error:
            raise DataError(f"{str(self.path)!r}{where}: {_TOO_DEEP}") from error
        except ValueError as error:
            said = str(error)
            if "integer string conversion" in said:
                said = "an integer of more than 4,300 digits; write it as text, in quotes"
            is_json = "" if where else " is no JSON"
            raise DataError(f"{str(self.path)!r}{where}{is_json}: {said}") from error
        return found

    def _object(self, row: Any, where: str, is_long: bool) -> Row:
        if not isinstance(row, dict):
            raise DataError(
                f"{str(self.path)!r}, {where} is {_shown(row)}, not an object with columns"
            )
        for name, value in row.items():
            if isinstance(value, dict | list) and _depth(value) > _DEEPEST:
                raise DataError(f"{str(self.path)!r}, {where}, column {name!r}: {_TOO_DEEP}")
            if is_long:
                size = len(value if isinstance(value, str) else json.dumps(value))
                if size > self.most_chars:
                    raise cell_too_long(self.path, where.split()[-1], name, size)
        return row


def _rows_in(found: Mapping[str, Any]) -> list[Any] | None:
    """Return the rows in an object: in ``data``, in its only list of objects, or by columns.

    Columns are lists of equal lengths, or objects with the same keys, as pandas writes.
    """
    if isinstance(found.get("data"), list):
        return list(found["data"])
    lists = [one for one in found.values() if isinstance(one, list) and _are_objects(one)]
    if len(lists) == 1:
        return lists[0]
    kinds = {
        tuple(one) if isinstance(one, dict) else len(one) if isinstance(one, list) else None
        for one in found.values()
    }
    if lists or len(found) < 2 or len(kinds) > 1 or None in kinds:
        return None
    columns = [list(one.values()) if isinstance(one, dict) else one for one in found.values()]
    return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]


def _are_objects(items: Sequence[Any]) -> bool:
    return bool(items) and all(isinstance(one, dict) for one in items)


_TOO_DEEP: Final = f"lists or objects within each other, more than {_DEEPEST} deep; flatten them"


class _TooLong(Exception):
    """A row or a cell is longer than allowed; holds the text of the row so far."""

    def __init__(self, text: str, delimiter: str = ",") -> None:
        super().__init__(text[:80])
        self.text, self.delimiter = text, delimiter


class _Lines:
    """The lines of a file, with a maximum number of characters per row."""

    def __init__(self, file: IO[str], most_chars: int) -> None:
        self._file, self._most, self._again = file, most_chars, ""
        self._size, self._parts = 0, list[str]()
        self.number, self.begun = 0, 1

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._again or self._file.readline(self._most - self._size + 1)
        self._again = ""
        if not line:
            raise StopIteration
        self.number += 1
        self._size += len(line)
        self._parts.append(line)
        if self._size > self._most:
            raise _TooLong(self.held)
        return line

    @property
    def held(self) -> str:
        """The text of the row so far."""
        return "".join(self._parts)

    def begin(self) -> None:
        """Begin a row, and reset the count of characters."""
        self._size, self.begun = 0, self.number + 1
        self._parts.clear()

    def give_back(self, line: str) -> None:
        """Push back a line, which the next call returns again."""
        self._again = line
        self.number -= bool(line)


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return the columns of rows, by first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def chars_in(row: Row) -> int:
    """Return the number of characters in a row's cells."""
    return sum(len(one if isinstance(one, str) else json.dumps(one)) for one in row.values())


def is_blank(value: Any) -> bool:
    """Tell whether a cell is empty."""
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and objects, without recursion."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for many in inner for one in many if isinstance(one, dict | list)]
    return depth


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value; write null, or leave the key out")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large; write it as text, in quotes")
    return number


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        double = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {double!r} is given twice; take one out")
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

"""Read rows of CSV, TSV, JSON, JSON Lines and Parquet files one by one.

Nothing is guessed that could change what a row says: a file that is damaged, or in an unknown
encoding, is refused with the place and the next move. CSV cells are texts.
"""

import csv
import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

from skillwright.core import DataError

Row = dict[str, Any]

SUFFIXES: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
INSTALL_PARQUET: Final = "pip install 'skillwright[parquet]'"

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_LOOKED_AT_BYTES: Final = 4096
_LONGEST_CELL: Final = 10_000_000
_DELIMITERS: Final = (",", ";", "\t", "|")
_UNNAMED: Final = "index"  # what pandas writes without a name, before the others


@dataclass(frozen=True, slots=True)
class Table:
    """A file of rows.

    Attributes:
        path: The file; its suffix is its format.
        encoding: Encoding of text; ``None``: UTF-8 or that of the byte order mark.

    Raises:
        DataError: The file is missing, or its suffix is not in `SUFFIXES`.
    """

    path: Path
    encoding: str | None = None

    def __post_init__(self) -> None:
        suffix = self.path.suffix.lower()
        if suffix not in SUFFIXES:
            raise DataError(
                f"{str(self.path)!r} is no table: its name ends in {suffix or 'nothing'!r}. "
                f"Give a file that ends in {', '.join(SUFFIXES)}"
            )
        if not self.path.is_file():
            raise DataError(f"there is no file {str(self.path)!r} in {str(Path.cwd())!r}")

    def rows(self) -> Iterator[Row]:
        """Read the rows in order, one at a time.

        Raises:
            DataError: The file is damaged; the message has the position and advice.
        """
        match self.path.suffix.lower():
            case ".csv" | ".tsv":
                yield from self._cells()
            case ".parquet":
                yield from _parquet(self.path)
            case ".json":
                yield from self._json()
            case _:
                yield from self._json_lines()

    def head(self, most: int) -> list[Row]:
        """Return the first rows."""
        return list(islice(self.rows(), most))

    def _cells(self) -> Iterator[Row]:
        csv.field_size_limit(_LONGEST_CELL)
        lines = self._lines()
        _, header = next(lines, (0, []))
        if not header:
            raise DataError(f"{str(self.path)!r} is empty; its first line names the columns")
        names = self._names(header)
        for line, cells in lines:
            if len(cells) != len(names):
                raise DataError(
                    f"{str(self.path)!r}, line {line}: {len(cells)} cells under a header of "
                    f"{len(names)} columns ({', '.join(names)}). A cell that holds the separator "
                    'or a line break must be in "double quotes"'
                )
            yield dict(zip(names, cells, strict=True))

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Read the nonempty lines with their numbers."""
        with self.path.open(encoding=self._encoding(), newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter(), strict=True)
            number = 0
            try:
                for cells in reader:
                    number = reader.line_num
                    if any(cell.strip() for cell in cells):
                        yield number, cells
            except csv.Error as error:
                raise DataError(
                    f"{str(self.path)!r}, line {reader.line_num}: {error}. Look for a double "
                    'quote that is never closed; one inside a quoted cell is written twice: ""'
                ) from error
            except UnicodeError as error:
                self._refuse_encoding(error, number + 1)

    def _delimiter(self) -> str:
        if self.path.suffix.lower() == ".tsv":
            return "\t"
        with self.path.open(encoding=self._encoding(), newline="") as file:
            try:
                first = next((line for line in file if line.strip()), "")
            except UnicodeError as error:
                self._refuse_encoding(error, 1)
        return max(_DELIMITERS, key=first.count)

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

    def _json(self) -> Iterator[Row]:
        try:
            found = json.loads(self._text(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{str(self.path)!r} is no JSON: {error}") from error
        rows = found.get("data") if isinstance(found, Mapping) else found
        if not isinstance(rows, list):
            raise DataError(
                f"{str(self.path)!r} holds no list of rows; write [{{...}}, {{...}}], or one "
                "object per line into a file that ends in .jsonl"
            )
        for number, row in enumerate(rows, start=1):
            yield self._object(row, f"row {number}")

    def _json_lines(self) -> Iterator[Row]:
        number = 0
        with self.path.open(encoding=self._encoding()) as file:
            try:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield self._object(self._parsed(line, number), f"line {number}")
            except UnicodeError as error:
                self._refuse_encoding(error, number + 1)

    def _parsed(self, line: str, number: int) -> Any:
        try:
            return json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{str(self.path)!r}, line {number}: {error}") from error

    def _object(self, row: Any, where: str) -> Row:
        if not isinstance(row, dict):
            raise DataError(
                f"{str(self.path)!r}, {where} is {_shown(row)}, not an object with columns"
            )
        return row

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding=self._encoding())
        except UnicodeError as error:
            self._refuse_encoding(error, 0)

    def _encoding(self) -> str:
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except LookupError:
                raise DataError(
                    f"there is no encoding {self.encoding!r}; use utf-8, utf-16, cp1252 or latin-1"
                ) from None
            return self.encoding
        with self.path.open("rb") as file:
            first = file.read(_LOOKED_AT_BYTES)
        marked = next((name for mark, name in _MARKS if first.startswith(mark)), None)
        if marked is None and b"\x00" in first:
            raise DataError(
                f"{str(self.path)!r} holds zero bytes, as UTF-16 without a mark does. Say "
                "env.data.encoding: utf-16-le, or save it as UTF-8"
            )
        return marked or "utf-8"

    def _refuse_encoding(self, error: UnicodeError, line: int) -> NoReturn:
        byte = (
            f" (byte 0x{error.object[error.start]:02x})"
            if isinstance(error, UnicodeDecodeError)
            else ""
        )
        where = f", from line {line} on" if line else ""
        raise DataError(
            f"{str(self.path)!r}{where}, is not {self._encoding().upper()}{byte}. Files of older "
            "programs are often in Windows-1252: say encoding cp1252 (env.data.encoding, or "
            "`init --encoding cp1252`), or save the file as UTF-8"
        ) from error


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return the columns of rows, by first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def is_blank(value: Any) -> bool:
    """Tell whether a cell is empty."""
    return value is None or (isinstance(value, str) and not value.strip()) or value == []


def _parquet(path: Path) -> Iterator[Row]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"{str(path)!r} is Parquet, which needs pyarrow: {INSTALL_PARQUET}, or save the "
            "table as CSV or JSON Lines"
        ) from error
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                yield {name: _plain(value) for name, value in row.items()}
    except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
        raise DataError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


def _plain(value: Any) -> Any:
    """Convert values that are no JSON, such as dates, to text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value; write null, or leave the key out")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."

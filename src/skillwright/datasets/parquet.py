"""Read the rows of a Parquet file in batches, with bounded memory.

A few bytes of Parquet may decompress to a gigabyte of text. So repeated texts are held once, as in
the file, and the length of every cell is checked before it becomes a Python string.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError

INSTALL_PARQUET: Final = "pip install 'skillwright[parquet]'"

_PIECE_BYTES: Final = 1 << 26
_PIECE_ROWS: Final = 32_768


def parquet_rows(path: Path, most_chars: int, most_bytes: int | None) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet file as JSON values: strings, numbers, lists and objects.

    Bytes must be UTF-8 and become strings, as do dates, times and decimals. A 32-bit float becomes
    the shortest number with the same value (0.1, not 0.10000000149011612).

    Args:
        path: The file.
        most_chars: Maximum characters of a cell.
        most_bytes: Maximum bytes of the whole file, uncompressed; ``None``: unlimited.

    Raises:
        DataError: The file is damaged, or too large; the message names column and row.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"{str(path)!r} is Parquet, which needs pyarrow: {INSTALL_PARQUET}, or save the "
            "table as CSV or JSON Lines"
        ) from error
    try:
        yield from _Reading(arrow, parquet, path, most_chars).rows(most_bytes)
    except (arrow.ArrowException, OSError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, DataError | MemoryError):
            raise
        raise DataError(f"{str(path)!r} cannot be read as Parquet: {error}") from error


def parquet_count(path: Path) -> int:
    """Return the number of rows that a Parquet file says it has."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    return int(parquet.read_metadata(path).num_rows)


class _Reading:
    def __init__(self, arrow: Any, parquet: Any, path: Path, most_chars: int) -> None:
        self.arrow, self.types, self.path, self.most_chars = arrow, arrow.types, path, most_chars
        self.compute: Any = importlib.import_module("pyarrow.compute")
        self.numpy: Any = importlib.import_module("numpy")  # loaded for Parquet files alone
        self.facts = parquet.read_metadata(path)
        leaves = [self.facts.schema.column(at) for at in range(self.facts.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        self.file = parquet.ParquetFile(path, read_dictionary=texts)
        self.names = self.file.schema_arrow.names
        double = next((name for name in self.names if self.names.count(name) > 1), None)
        if double is not None:
            raise DataError(f"{str(path)!r}: two columns are called {double!r}; rename one")

    def rows(self, most_bytes: int | None) -> Iterator[dict[str, Any]]:
        """Read the row groups in order."""
        first, size = 1, 0
        if not self.names:
            return
        for group in range(self.facts.num_row_groups):
            facts = self.facts.row_group(group)
            size += facts.total_byte_size
            if most_bytes is not None and size > most_bytes:
                raise file_too_large(self.path, most_bytes)
            self._refuse_group(facts, first)
            fitting = _PIECE_BYTES * facts.num_rows // max(facts.total_byte_size, 1)
            piece = min(max(fitting, 1), _PIECE_ROWS)
            try:
                for batch in self.file.iter_batches(batch_size=piece, row_groups=[group]):
                    yield from self._batch(batch, first)
                    first += batch.num_rows
            except MemoryError as error:
                raise self._too_much(facts, first) from error

    def _batch(self, batch: Any, first: int) -> Iterator[dict[str, Any]]:
        cells = []
        for name, whole in zip(self.names, batch.columns, strict=True):
            column = self._with_used_words(whole)
            sizes = self._sizes(column)
            longest = 0 if sizes is None else int(sizes.max(initial=0))
            if longest > self.most_chars:
                raise cell_too_long(self.path, f"{first + int(sizes.argmax())}", name, longest)
            try:
                cells.append(self._values(column))
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{str(self.path)!r}, column {name!r}, from row {first} on: its bytes are no "
                    "text in UTF-8. Write the column as text, or take it out of the file"
                ) from error
        for row in zip(*cells, strict=True):
            yield dict(zip(self.names, row, strict=True))

    def _refuse_group(self, facts: Any, first: int) -> None:
        """Refuse a flat column whose cells are too long on average, without decompressing it."""
        for at in range(facts.num_columns):
            chunk = facts.column(at)
            average = chunk.total_uncompressed_size // max(facts.num_rows, 1)
            if chunk.path_in_schema in self.names and average > 4 * self.most_chars:
                rows = f"{first} to {first + facts.num_rows - 1}"
                raise cell_too_long(self.path, rows, chunk.path_in_schema, average)

    def _too_much(self, facts: Any, first: int) -> DataError:
        chunks = [facts.column(at) for at in range(facts.num_columns)]
        most = max(chunks, key=lambda chunk: chunk.total_uncompressed_size)
        size = most.total_uncompressed_size // 1_000_000
        return DataError(
            f"{str(self.path)!r}, from row {first} on, column {most.path_in_schema!r}: {size:,} MB "
            "are more than this process may take, also where env.data.max_cell_chars reads longer "
            "cells. Shorten them, or take the column out of the file"
        )

    def _with_used_words(self, column: Any) -> Any:
        """Return a dictionary-encoded column without the dictionary's unused texts."""
        if not self.types.is_dictionary(column.type):
            return column
        indices = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        used, at = self.numpy.unique(indices, return_inverse=True)
        taken = self.arrow.array(used, mask=used < 0)
        return self.arrow.DictionaryArray.from_arrays(at, column.dictionary.take(taken))

    def _sizes(self, column: Any) -> Any:
        """Return the size of each cell: the characters of its texts, and 4 per other value.

        ``None`` if the cells are neither texts nor nested.
        """
        kind, types = column.type, self.types
        if types.is_dictionary(kind):
            texts = column.dictionary
            is_text = types.is_string(texts.type) or types.is_large_string(texts.type)
            count = self.compute.utf8_length if is_text else self.compute.binary_length
            lengths = self.numpy.append(count(texts).fill_null(0).to_numpy(zero_copy_only=False), 0)
            # The length of a null is the appended one.
            return lengths[column.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)]
        if types.is_struct(kind):
            parts = [self._sizes_or_4(column.field(at)) for at in range(kind.num_fields)]
            return self.numpy.sum(parts, axis=0) if parts else None
        if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
            inner = column.items if types.is_map(kind) else column.values
            ends = self.numpy.append(0, self.numpy.cumsum(self._sizes_or_4(inner)))
            return self.numpy.diff(ends[column.offsets.to_numpy()])
        return None

    def _sizes_or_4(self, column: Any) -> Any:
        sizes = self._sizes(column)
        return self.numpy.full(len(column), 4, self.numpy.int64) if sizes is None else sizes + 4

    def _values(self, column: Any) -> list[Any]:
        kind, types = column.type, self.types
        if types.is_dictionary(kind):
            # Each repeated text is converted once.
            words = [self._plain(one, kind.value_type) for one in column.dictionary.to_pylist()]
            return [None if at is None else words[at] for at in column.indices.to_pylist()]
        if types.is_integer(kind) or types.is_boolean(kind):
            return list(column.to_pylist())
        try:
            return [self._plain(value, kind) for value in column.to_pylist()]
        except (ValueError, OverflowError):  # a time with nanoseconds, or beyond the year 9999
            if not types.is_temporal(kind):
                raise
            return list(column.cast(self.arrow.string()).to_pylist())

    def _plain(self, value: Any, kind: Any) -> Any:
        """Convert a value to a JSON value."""
        types = self.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            if value != value or abs(value) == float("inf"):
                return None
            if types.is_float32(kind):
                return float(str(self.numpy.float32(value)))
            return float(str(self.numpy.float16(value))) if types.is_float16(kind) else value
        if isinstance(value, bytes):
            return value.decode("utf-8")
        if isinstance(value, Mapping):
            fields = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
            return {name: self._plain(one, fields[name]) for name, one in value.items()}
        if isinstance(value, list | tuple):
            if types.is_map(kind):
                return {str(name): self._plain(one, kind.item_type) for name, one in value}
            return [self._plain(one, kind.value_type) for one in value]
        return format(value, "f") if types.is_decimal(kind) else str(value)


def cell_too_long(path: Path, row: str, column: str, size: int) -> DataError:
    """Return the error that a cell is longer than ``env.data.max_cell_chars`` allows."""
    return DataError(
        f"{str(path)!r}, row {row}, column {column!r}: {size:,} characters in one cell. Shorten "
        "it, or take the column out of the file; env.data.max_cell_chars reads longer cells"
    )


def file_too_large(path: Path, most_bytes: int) -> DataError:
    """Return the error that a file holds more than ``env.data.max_file_mb`` allows."""
    return DataError(
        f"{str(path)!r} holds more than {most_bytes // 1_000_000:,} MB. Take part of its rows; "
        "env.data.max_file_mb reads larger files"
    )

"""Rows from Python as files, under names that depend on their contents."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skillwright.core import DataError, RunError
from skillwright.core.jsonio import dumps, text_digest, write_text


def write_rows(
    tasks: Iterable[Mapping[str, Any]] | Mapping[str, Iterable[Mapping[str, Any]]], folder: Path
) -> str:
    """Write rows, or rows by split, to a path that depends on their contents, and return it.

    Raises:
        DataError: A row is no valid JSON.
        RunError: The folder cannot be written.
    """
    splits = tasks if isinstance(tasks, Mapping) else {"": tasks}
    texts = {split: _as_lines(rows) for split, rows in splits.items()}
    name = text_digest("\n\n".join(f"{split}\n{text}" for split, text in texts.items()))[:16]
    if not isinstance(tasks, Mapping):
        return _write_once(folder / f"{name}.jsonl", texts[""])
    for split, text in texts.items():
        _write_once(folder / name / f"{split}.jsonl", text)
    return str(folder / name)


def _as_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    try:
        text = "".join(f"{dumps(dict(row))}\n" for row in rows)
        text.encode()
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the rows of tasks must be valid JSON: {error}. Write None where a value is missing"
        ) from error
    return text


def _write_once(path: Path, text: str) -> str:
    try:
        if not path.is_file():
            write_text(path, text)
    except OSError as error:
        raise RunError(f"{str(path)!r} cannot be written ({error.strerror}): run.root") from error
    return str(path)

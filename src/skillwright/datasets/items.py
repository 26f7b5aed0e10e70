"""Items on disk: JSON and JSONL files in, generated split folders out."""

import json
from collections.abc import Mapping, Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NoReturn

from skillwright.core.jsonio import digest, dumps, read_text, write_text
from skillwright.datasets.split import (
    SPLIT_NAMES,
    Item,
    Split,
    SplitError,
    SplitFileMissing,
)

MANIFEST_NAME = "split_manifest.json"
ITEMS_NAME = "items.json"

_DATA_SUFFIXES = (".json", ".jsonl")


def read_raw_items(path: Path) -> list[Any]:
    """Read a whole data set that is not split yet; `check_items` says whether it is one.

    Raises:
        SplitError: The folder is split already or holds several data files, or the file is
            malformed (the message gives line and column).
        SplitFileMissing: There is nothing at the path, or no data file in the folder.
        DataError: The file cannot be read, or is not UTF-8.
    """
    file = _single_file(path) if path.is_dir() else path
    if not file.is_file():
        raise SplitFileMissing(f"data_path {str(path)!r} does not exist")
    return _read_lines(file) if file.suffix.lower() == ".jsonl" else _as_list(_read(file), file)


def read_split_folder(path: Path) -> tuple[list[Any], list[str]]:
    """Read one split from the first ``.json`` file of its folder, by name.

    Where there is none, the first ``.jsonl`` file is read.

    Returns:
        The items, and the names of further files of that kind, which are not read.
    """
    files = sorted(path.glob("*.json")) or sorted(path.glob("*.jsonl"))
    if not files:
        raise SplitFileMissing(f"{str(path)!r} holds no .json file; put the items in items.json")
    items = _read_lines(files[0]) if files[0].suffix == ".jsonl" else _read(files[0])
    if not isinstance(items, list):
        raise SplitError(f"{str(files[0])!r} holds a {_kind(items)}; a list of items is needed")
    return items, [file.name for file in files[1:]]


def split_manifest(split: Split, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a split so that another machine can prove that it has the same one.

    Returns:
        ``facts``, then per split ``counts``, ``ids`` in order, and ``sha256`` of the items, which
        is ``None`` where they hold more than JSON values.
    """
    named = dict(split.named())
    return {
        **facts,
        "counts": {name: len(items) for name, items in named.items()},
        "ids": {name: [str(item["id"]) for item in items] for name, items in named.items()},
        "sha256": {name: _fingerprint(items) for name, items in named.items()},
    }


def write_split(folder: Path, split: Split, manifest: Mapping[str, Any]) -> None:
    """Write ``<split>/items.json`` and ``split_manifest.json``, each as a whole or not at all."""
    bodies = {name: _as_json(name, items) for name, items in split.named()}
    for name, body in bodies.items():
        write_text(folder / name / ITEMS_NAME, body + "\n")
    # Last, so that a manifest always speaks of files that are there.
    write_text(folder / MANIFEST_NAME, dumps(manifest, indent=2) + "\n")


def _fingerprint(items: Sequence[Item]) -> str | None:
    try:
        return digest(items)
    except (TypeError, ValueError):  # a loader of somebody's own may add images, paths, dates
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
    return _parse(read_text(file, "data file").removeprefix("\ufeff"), file, first_line=1)


def _read_lines(file: Path) -> list[Any]:
    text = read_text(file, "data file").removeprefix("\ufeff")
    # Not splitlines(): a line separator inside a JSON string does not end the line.
    lines = enumerate(text.split("\n"), start=1)
    return [_parse(line, file, first_line=number) for number, line in lines if line.strip()]


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

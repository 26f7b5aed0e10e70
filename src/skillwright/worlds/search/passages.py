"""Read files of passages, with the keys and formats of published collections."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from skillwright.core import DataError
from skillwright.core.jsonio import text_digest
from skillwright.datasets.rows import Table, is_blank
from skillwright.worlds.search.items import PASSAGES, Passage, listed_passages

_ID: Final = ("id", "_id", "pid", "passage_id", "doc_id", "docid")
_TEXT: Final = ("text", "contents", "content", "passage", "paragraph", "paragraph_text", "body")


@dataclass(frozen=True, slots=True)
class Filed:
    """A passage of a collection.

    Attributes:
        id: Id, unique in the collection.
        passage: Title and text.
    """

    id: str
    passage: Passage


def read_passages(path: Path) -> Iterator[Filed]:
    """Yield the passages of a file, in order, without loading all of them.

    A row is a passage with its text under ``text`` or another usual key (a list of sentences is
    joined), ``title`` and ``id``. ``contents`` with the title in quotes on its first line, as in
    Search-R1's Wikipedia, is split. The id of a row without one is its number.

    A row of a file of questions gives the question's passages (``context`` or ``paragraphs`` of
    HotpotQA, 2WikiMultihopQA and MuSiQue); duplicates are dropped.

    Args:
        path: CSV, TSV, JSON, JSON Lines or Parquet.

    Raises:
        DataError: There is no such file, it is empty or damaged, a row is no passage, or two have
            the same id; the message names the row.
    """
    keys = array("q")  # eight bytes of each id's digest, because there may be millions
    for _, filed in _numbered(path):
        keys.append(_short(filed.id))
        yield filed
    if not keys:
        raise DataError(
            f"{str(path)!r} holds no passage; write a row for each, with id, title and text"
        )
    found, counts = np.unique(np.frombuffer(keys, dtype=np.int64), return_counts=True)
    doubles = found[counts > 1]
    if doubles.size:
        _refuse(path, {int(key) for key in doubles})


def _refuse(path: Path, doubles: set[int]) -> None:
    wanted = ((row, filed) for row, filed in _numbered(path) if _short(filed.id) in doubles)
    (first, filed), (second, _) = islice(wanted, 2)
    raise DataError(
        f"{str(path)!r}: rows {first} and {second} are both passage {filed.id!r}; give each an id "
        "of its own, or leave the ids out"
    )


def _numbered(path: Path) -> Iterator[tuple[int, Filed]]:
    """Yield passages with the number of their row, from 1, without questions' duplicates."""
    met: set[int] = set()
    for number, row in enumerate(Table(path).rows(), start=1):
        try:
            brought = _brought(row)
            found = [_filed(row, number)] if brought is None else []
        except DataError as error:
            raise DataError(f"{str(path)!r}, row {number}: {error}") from error
        for place, passage in enumerate(brought or (), start=1):
            said = _short(str(passage))
            if said not in met:
                met.add(said)
                found.append(Filed(f"{_named(row, number)}-{place}", passage))
        yield from ((number, filed) for filed in found)


def _brought(row: Mapping[str, Any]) -> tuple[Passage, ...] | None:
    """Return the passages of a question; ``None`` if the row is a passage."""
    name = next((one for one in PASSAGES if isinstance(row.get(one), list | Mapping)), None)
    if name is None or (_text_of(row) and "question" not in row):
        return None
    return listed_passages(row[name])


def _text_of(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _TEXT if isinstance(row.get(name), str | list)), None)


def _filed(row: Mapping[str, Any], number: int) -> Filed:
    name = _text_of(row)
    if name is None:
        raise DataError(
            f"there is no text: none of {', '.join(_TEXT)} is one; there is "
            f"{', '.join(map(str, row)) or 'nothing'}"
        )
    text, title = row[name], row.get("title")
    if isinstance(text, list):
        text = "".join(map(str, text))
    if not isinstance(title, str | None):
        raise DataError(f"title is {title!r}; write a text")
    if not title and name == "contents" and text.startswith('"'):
        title, _, text = text.partition("\n")
        title = title.strip('"')
    if not text.strip():
        raise DataError(f"{name!r} is blank; take the row out, or write the passage's text")
    return Filed(_named(row, number), Passage((title or "").strip(), text.strip()))


def _named(row: Mapping[str, Any], number: int) -> str:
    name = next((name for name in _ID if not is_blank(row.get(name))), None)
    return str(number) if name is None else str(row[name])


def _short(text: str) -> int:
    return int(text_digest(text)[:15], 16)

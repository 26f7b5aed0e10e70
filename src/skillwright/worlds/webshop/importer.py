"""Import the original's JSON files into a catalogue, in constant memory.

Cleaning is as in the original: asins that are ``nan``, longer than ten characters or repeated are
skipped. The files cannot be distributed.
"""

import json
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from skillwright.core import DataError
from skillwright.worlds.webshop.catalogue import CatalogueWriter
from skillwright.worlds.webshop.product import Product, Wish, parse_pricing
from skillwright.worlds.webshop.search import tantivy_folder

# Read JSON files that are larger than memory, one entry at a time.


CHUNK_CHARS: Final = 1 << 20
_LONGEST_ENTRY: Final = 1 << 24
_SPACE: Final = re.compile(r"\s*")


def stream_array(path: Path, *, chunk_chars: int = CHUNK_CHARS) -> Iterator[Any]:
    """Yield the entries of a file that holds one JSON array."""
    yield from _opened(path, "[]", chunk_chars)


def stream_object(path: Path, *, chunk_chars: int = CHUNK_CHARS) -> Iterator[tuple[str, Any]]:
    """Yield the members of a file that holds one JSON object, as pairs of name and value."""
    yield from _opened(path, "{}", chunk_chars)


def _opened(path: Path, brackets: str, chunk_chars: int) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from _Entries(path, file, chunk_chars).read(*brackets)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not UTF-8 ({error.reason})") from error


class _Entries:
    """A window on the file that moves with every entry."""

    def __init__(self, path: Path, file: TextIO, chunk_chars: int) -> None:
        self._path = path
        self._file = file
        self._chunk_chars = chunk_chars
        self._text = ""
        self._at = 0
        self._ended = False
        self._read = 0
        self._decoder = json.JSONDecoder()

    def read(self, first: str, last: str) -> Iterator[Any]:
        if self._next() != first:
            kind = "array" if first == "[" else "object"
            raise self._fault(f"it does not begin with {first!r}, as a JSON {kind} does")
        self._at += 1
        while self._next() != last:
            yield self._member() if first == "{" else self._value()
            self._read += 1
            if self._next() == ",":
                self._at += 1
            elif self._next() != last:
                raise self._fault(f"there is no ',' and no {last!r}")
        self._at += 1
        if self._next():
            raise self._fault(f"there is something after its last {last!r}")

    def _member(self) -> tuple[str, Any]:
        name = self._value()
        if not isinstance(name, str) or self._next() != ":":
            raise self._fault("there is no name with a ':'")
        self._at += 1
        return name, self._value()

    def _value(self) -> Any:
        """Decode the value at the current position, reading on in the file until it is complete."""
        self._next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if self._ended:
                    raise self._fault(f"what follows is no JSON ({error})") from error
                if len(self._text) - self._at > _LONGEST_ENTRY:
                    raise self._fault(
                        f"what follows is no JSON, or has more than {_LONGEST_ENTRY:,} characters "
                        f"({error})"
                    ) from error
            else:
                # A number at the end of the window may be incomplete.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            self._read_on()

    def _next(self) -> str:
        """Skip white space and return the next character, ``""`` at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read_on()

    def _read_on(self) -> None:
        more = self._file.read(self._chunk_chars)
        self._ended = not more
        self._text = self._text[self._at :] + more
        self._at = 0

    def _fault(self, what: str) -> DataError:
        return DataError(f"{str(self._path)!r}: after entry {self._read}, {what}")


_ITEMS: Final = "items_shuffle"
_ATTRIBUTES: Final = "items_ins_v2"
_HUMAN: Final = "items_human_ins"
_SMALL: Final = "_1000"
_LONGEST_ASIN: Final = 10

# The database is built in a new file and moved into place when complete.
_FAST: Final = """
PRAGMA page_size = 8192;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -65536;
CREATE TABLE about(asin TEXT PRIMARY KEY, attributes BLOB, human BLOB);
"""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    Attributes:
        skipped: Number of entries without a usable or new asin.
        human_goals: Number of goals written by people.
        synthetic_goals: Number of goals generated from options.
        digest: Digest of all products.
    """

    path: str
    products: int
    skipped: int
    human_goals: int
    synthetic_goals: int
    digest: str


def import_webshop(folder: Path, target: Path, *, small: bool = False) -> Imported:
    """Import the official files in a folder.

    Args:
        folder: Folder with the products and at least one of the two files with instructions.
        target: The catalogue's file, replaced when the new one is complete; its tantivy index is
            removed.
        small: Use the files with 1,000 products.

    Raises:
        DataError: A file is missing or malformed, or ``target`` cannot be written; nothing is
            changed.
    """
    items, attributes, human = (
        _file_of(folder, name, small=small) for name in (_ITEMS, _ATTRIBUTES, _HUMAN)
    )
    if items is None or not (attributes or human):
        wanted = f"{_ITEMS}.json, and {_ATTRIBUTES}.json or {_HUMAN}.json"
        raise DataError(
            f"{str(folder)!r} does not hold the files of WebShop: {wanted} (or {_ITEMS}{_SMALL}"
            ".json and so on). Its repository, princeton-nlp/WebShop, says how to get them"
        )
    if target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; name a file, such as shop.sqlite in it")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    try:
        connection = sqlite3.connect(unfinished)
        try:
            imported = _import(connection, target, items, attributes, human)
        finally:
            connection.close()
        # The index of the replaced products.
        shutil.rmtree(tantivy_folder(target), ignore_errors=True)
        unfinished.replace(target)
    except sqlite3.OperationalError as error:
        raise DataError(
            f"{str(target)!r} cannot be written: {error}. Check the path, its permissions, and the "
            "room on the disk"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return imported


def _file_of(folder: Path, name: str, *, small: bool) -> Path | None:
    full, few = folder / f"{name}.json", folder / f"{name}{_SMALL}.json"
    # People's instructions come in one file for both sizes.
    order = [few, full] if small else [full, few]
    if small and name == _ITEMS:
        order.remove(full)
    return next((path for path in order if path.is_file()), None)


def _import(
    connection: sqlite3.Connection,
    target: Path,
    items: Path,
    attributes: Path | None,
    human: Path | None,
) -> Imported:
    connection.executescript(_FAST)
    for path, column in ((attributes, "attributes"), (human, "human")):
        if path is not None:
            connection.executemany(
                f"INSERT INTO about(asin, {column}) VALUES (?, ?) "
                f"ON CONFLICT(asin) DO UPDATE SET {column} = excluded.{column}",
                ((_text(asin), _packed(value)) for asin, value in stream_object(path)),
            )
    writer, entries, products = CatalogueWriter(connection), 0, 0
    for entry in stream_array(items):
        entries += 1
        product = _product(connection, entry, f"{str(items)!r}, entry {entries}")
        products += product is not None and writer.add(product)
    connection.execute("DROP TABLE about")
    digest = writer.finish()
    human_goals, synthetic = connection.execute(
        "SELECT total(human), total(synthetic) FROM goals"
    ).fetchone()
    connection.commit()
    return Imported(
        str(target), products, entries - products, int(human_goals), int(synthetic), digest
    )


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), level=1)


def _unpacked(body: bytes | None) -> Any:
    return None if body is None else json.loads(zlib.decompress(body))


def _product(connection: sqlite3.Connection, entry: Any, where: str) -> Product | None:
    if not isinstance(entry, Mapping) or "asin" not in entry:
        raise DataError(f"{where} is no product: it has no 'asin'. Is this {_ITEMS}.json?")
    asin = _text(entry["asin"])
    if not asin or asin == "nan" or len(asin) > _LONGEST_ASIN:
        return None
    row = connection.execute("SELECT attributes, human FROM about WHERE asin = ?", (asin,))
    found = row.fetchone() or (None, None)
    about, bullets = _mapping(_unpacked(found[0])), entry.get("small_description")
    return Product(
        asin=asin,
        title=_text(entry.get("name")),
        description=_text(entry.get("full_description")),
        bullets=_texts([bullets] if isinstance(bullets, str) else bullets),
        prices=parse_pricing(entry.get("pricing")),
        options=_options(entry.get("customization_options"), where),
        category=_text(entry.get("category")),
        query=_text(entry.get("query")).lower(),
        crumbs=_text(entry.get("product_category")),
        attributes=_texts(about.get("attributes")),
        wishes=tuple(_wish(said, where) for said in _listed(_unpacked(found[1]))),
        template=_template(about),
    )


def _options(given: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not given:
        return {}
    if not isinstance(given, Mapping):
        raise DataError(f"{where}: customization_options is {type(given).__name__}, not an object")
    options = {}
    for name, choices in given.items():
        values = [_text(_mapping(choice).get("value")) for choice in _listed(choices)]
        cleaned = (value.replace("/", " | ").lower() for value in values if value)
        if choices is not None:
            options[_text(name).lower()] = tuple(dict.fromkeys(cleaned))
    return options


def _wish(said: Any, where: str) -> Wish:
    wish = _mapping(said)
    if "instruction" not in wish:
        raise DataError(f"{where}: in {_HUMAN}.json its instructions have no 'instruction'")
    options = wish.get("instruction_options")
    values = options.values() if isinstance(options, Mapping) else _listed(options)
    return Wish(
        _text(wish["instruction"]).strip("."),
        _texts(wish.get("instruction_attributes")),
        _texts(values),
    )


def _template(about: Mapping[str, Any]) -> Wish | None:
    text, attributes = about.get("instruction"), _texts(about.get("instruction_attributes"))
    return Wish(_text(text), attributes) if text and attributes else None


def _texts(given: Any) -> tuple[str, ...]:
    return tuple(text for text in map(_text, _listed(given)) if text)


def _text(given: Any) -> str:
    """Convert a JSON value to one line of text; null gives an empty text."""
    if isinstance(given, list):
        given = " ".join(map(_text, given))
    # A lone surrogate cannot be stored.
    text = "" if given is None else str(given).encode("utf-8", "replace").decode()
    return " ".join(text.split())


def _listed(given: Any) -> Iterable[Any]:
    return given if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else ()


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}

"""Reads JSON files that are larger than memory, one entry at a time."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from skillwright.core import DataError

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
    """A window on the file that moves on with every entry."""

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
        """Decode the value that begins here, reading on until it is whole."""
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
                # A number that ends where the window does may go on behind it.
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

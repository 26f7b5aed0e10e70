"""Read some turns of a stored trajectory without unpacking the rest: episodes can have 100 MB.

The JSON text that `trajectories.write_trajectory` made is read while it is unpacked. Its three
arrays have a fixed order (metadata, messages, turns), and a quotation mark inside a JSON string is
always written with a backslash before it, so that the text between two arrays is found by search.
"""

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from skillwright.core import RunError

_CHUNK: Final = 1 << 20
_SEARCHED: Final = 16 << 20
_BORDERS: Final = ('{"metadata":[', '],"messages":[', '],"turns":[')
_decode: Final = json.JSONDecoder().raw_decode


def read_window(body: bytes, first: int, most: int, messages: int) -> dict[str, Any]:
    """Read the start of each array, as far as some turns need it.

    Args:
        body: Packed text.
        first: First turn, from 0.
        most: Maximum number of turns.
        messages: Number of first messages to keep: those of the first prompt.

    Returns:
        ``{"metadata": [at the start, per turn...], "messages": [...], "turns": [...]}``; metadata
        and turns of the window only, after the metadata at the start.

    Raises:
        RunError: The text is damaged.
    """
    text = _Text(_unpacked(body))
    text.skip_to(_BORDERS[0])
    metadata = text.items(first + most + 1)
    text.skip_to(_BORDERS[1])
    kept = text.items(messages)
    text.skip_to(_BORDERS[2])
    turns = text.items(first + most)
    return {
        "metadata": [*metadata[:1], *metadata[first + 1 :]],
        "messages": kept,
        "turns": turns[first:],
    }


def find_in(body: bytes, needles: Sequence[str], around: int, most: int = _SEARCHED) -> str:
    """Search for texts in a packed one, case-insensitively, in pieces.

    Args:
        body: Packed text.
        needles: Texts to find.
        around: Characters of context on each side.
        most: Maximum characters to search, which bounds the time for huge episodes.

    Returns:
        The first match with its context on both sides, or ``""``.
    """
    pattern = re.compile("|".join(map(re.escape, needles)), re.IGNORECASE)
    plain = [needle.lower() for needle in needles if needle.isascii()]
    longest, before, seen = max(map(len, needles)), "", 0
    for piece in _unpacked(body):
        if seen > most:
            break
        seen += len(piece)
        text = before + piece
        before = text[-(longest + around) :]
        # Ten times as fast as the pattern, which says where it is.
        if len(plain) == len(needles) and text.isascii():
            low = text.lower()
            if not any(needle in low for needle in plain):
                continue
        if found := pattern.search(text):
            return text[max(found.start() - around, 0) : found.end() + around]
    return ""


def _unpacked(body: bytes) -> Iterator[str]:
    reader = zlib.decompressobj()
    rest, tail = body, b""
    # Of a text that packs well the reader holds much when all of the input is read.
    while not reader.eof:
        try:
            fresh = reader.decompress(rest, _CHUNK)
        except zlib.error as error:
            raise RunError(
                f"an episode is damaged ({error}); restore its file from a copy"
            ) from error
        if not fresh and not reader.unconsumed_tail:
            return  # it ends in the middle
        rest, piece = reader.unconsumed_tail, tail + fresh
        cut = len(piece) - _incomplete(piece)
        tail = piece[cut:]
        yield piece[:cut].decode("utf-8", "surrogatepass")


def _incomplete(piece: bytes) -> int:
    """Return how many bytes at the end belong to a character that is not complete."""
    for back in range(1, min(4, len(piece) + 1)):
        byte = piece[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if size > back else 0
    return 0


class _Text:
    """A text that comes in pieces; what was read of it is dropped."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0

    def skip_to(self, border: str) -> None:
        """Go behind the next border."""
        while (found := self._text.find(border, self._at)) < 0:
            # A border may lie across two pieces.
            self._at = max(self._at, len(self._text) - len(border))
            self._more()
        self._at = found + len(border)

    def items(self, most: int) -> list[Any]:
        """Read a limited number of items of an array, after its opening bracket."""
        found: list[Any] = []
        while len(found) < most:
            item = self._item()
            if item is _END:
                return found
            found.append(item)
        return found

    def _item(self) -> Any:
        wanted = _CHUNK
        while True:
            while len(self._text) - self._at < 2:
                self._more()
            if self._text[self._at] == "]":
                return _END
            start = self._at + (self._text[self._at] == ",")
            try:
                value, end = _decode(self._text, start)
            except json.JSONDecodeError:
                pass
            else:
                if end < len(self._text):
                    self._at = end
                    return value
            # A long item is tried again when twice as much is there, or all there is.
            self._more()
            target = len(self._text) - self._at + wanted
            while len(self._text) - self._at < target and self._grows():
                pass
            wanted *= 2

    def _more(self) -> None:
        if not self._grows():
            raise RunError("an episode is cut; restore its file from a copy")

    def _grows(self) -> bool:
        """Read another piece; tell whether there was one."""
        piece = next(self._pieces, None)
        if piece is not None:
            self._text = self._text[self._at :] + piece
            self._at = 0
        return piece is not None


_END: Final = object()

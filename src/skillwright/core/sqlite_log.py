"""The write-ahead log beside an SQLite file: what was committed last and is not in the file yet.

SQLite takes a log that it cannot read for an old one and removes it, and it removes the log of an
empty file. Whoever opens a file can look here first.

Source of the layout: "WAL File Format", section 4 of https://www.sqlite.org/fileformat2.html.
"""

import struct
from pathlib import Path

_HEADER_BYTES = 32
_CHECKED_WORDS = 6
_LITTLE_ENDIAN, _BIG_ENDIAN = 0x377F0682, 0x377F0683
_WORD = 0xFFFFFFFF


def log_of(path: Path) -> Path:
    """Return where the log of a file is."""
    return path.with_name(f"{path.name}-wal")


def log_size(path: Path) -> int:
    """Return the bytes in the log of a file; 0 where there is none."""
    log = log_of(path)
    return log.stat().st_size if log.is_file() else 0


def has_valid_header(log: Path) -> bool:
    """Tell whether SQLite will read a log; one that holds nothing yet is valid."""
    if not log.is_file():
        return True
    with log.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:  # no frame can follow: a process was killed as it made the log
        return True
    magic = struct.unpack_from(">I", header)[0]
    if magic not in (_LITTLE_ENDIAN, _BIG_ENDIAN):
        return False
    order = ">" if magic == _BIG_ENDIAN else "<"
    words = struct.unpack_from(f"{order}{_CHECKED_WORDS}I", header)
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return (first, second) == struct.unpack_from(">2I", header, 4 * _CHECKED_WORDS)

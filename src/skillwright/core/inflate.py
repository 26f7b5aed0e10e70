"""Compressed text that may come from others: a megabyte of it can stand for a thousand."""

import zlib
from typing import Final

from skillwright.core.errors import DataError

MOST_BYTES: Final = 64 << 20


class PackedDamaged(DataError):
    """A compressed text is damaged, cut, or stands for too much."""


def inflate(body: bytes, what: str, most: int = MOST_BYTES) -> bytes:
    """Unpack what zlib packed.

    Raises:
        PackedDamaged: It is damaged, cut, or comes to more.
    """
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(body, most)
    except (zlib.error, TypeError) as error:
        raise PackedDamaged(f"{what} is damaged ({error}); restore its file from a copy") from error
    if reader.unconsumed_tail:
        raise PackedDamaged(
            f"{what} unpacks to more than {most:,} bytes, which nothing of ours does; restore its "
            "file from a copy"
        )
    if not reader.eof:
        raise PackedDamaged(f"{what} is cut; restore its file from a copy")
    return text

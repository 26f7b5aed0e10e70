"""The text by which two states of the database are the same or not, as tau-bench's hash tells them.

Unlike JSON it tells apart 50 and 50.0, true and 1, "1" and 1, and the order of lists; it does
not see the order of keys.

Source: tau-bench (arXiv:2406.12045), consistent hash of its base environment.
"""

from typing import Any


def canonical_text(value: Any) -> str:
    """Return the text of one record; equal exactly where tau-bench's hash would be."""
    return str(_hashable(value))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value

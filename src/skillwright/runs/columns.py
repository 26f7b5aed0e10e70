"""How values stand in columns."""

import json
import sqlite3
from typing import Any

from skillwright.core import Failure, FailureCause
from skillwright.core.secrets import Redactor

_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """Return compact JSON for a column; ASCII, because SQLite refuses a model's lone surrogates.

    Raises:
        TypeError: The value is no JSON value.
        ValueError: It holds NaN or an infinity.
    """
    return _COMPACT.encode(value)


def storable(text: str) -> str:
    """Escape lone surrogates, which a message may quote from a model and SQLite refuses."""
    return text.encode("utf-8", "backslashreplace").decode()


def failure_columns(failure: Failure | None, redactor: Redactor) -> dict[str, str | None]:
    """Return ``failure_cause`` and ``failure_message``, the message without secrets."""
    if failure is None:
        return {"failure_cause": None, "failure_message": None}
    message = redactor.clean(storable(failure.message))
    return {"failure_cause": failure.cause.value, "failure_message": message}


def read_failure(row: sqlite3.Row) -> Failure | None:
    """Read what `failure_columns` wrote."""
    if row["failure_cause"] is None:
        return None
    return Failure(FailureCause(row["failure_cause"]), row["failure_message"])


def digest_column(digest: str) -> bytes | None:
    """Return a digest's bytes; ``""`` means that there is none."""
    return bytes.fromhex(digest) if digest else None


def read_digest(column: bytes | None) -> str:
    """Read what `digest_column` wrote."""
    return "" if column is None else column.hex()

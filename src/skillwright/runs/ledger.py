"""What was spent, on what: one ledger for episodes and optimiser calls."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from skillwright.core import Usage
from skillwright.runs.database import Database

_FIELDS = tuple(field.name for field in fields(Usage))
_NOTHING = Usage().to_dict()

# A sum with an unknown price in it is unknown: SUM would pass over the NULL.
SUMS = """sum(u.calls) AS calls, sum(u.input_tokens) AS input_tokens,
    sum(u.output_tokens) AS output_tokens, sum(u.cached_tokens) AS cached_tokens,
    sum(u.failed_calls) AS failed_calls,
    CASE WHEN count(u.cost_usd) = count(u.id) THEN sum(u.cost_usd) END AS cost_usd"""


def spend(
    database: Database,
    usage: Mapping[str, Usage],
    *,
    episode: int | None = None,
    call: int | None = None,
) -> None:
    """Write down what an episode or a call consumed, by purpose."""
    database.write_many(
        f"INSERT INTO usage (purpose, episode, call, {', '.join(_FIELDS)})"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (purpose, episode, call, *(getattr(spent, name) for name in _FIELDS))
            for purpose, spent in usage.items()
        ],
    )


def usage_by_purpose(database: Database) -> dict[str, Usage]:
    """Sum the ledger per purpose, in order of the purposes' names."""
    rows = database.rows(f"SELECT purpose, {SUMS} FROM usage u GROUP BY purpose ORDER BY purpose")
    return {row["purpose"]: read_usage(row) for row in rows}


def read_usage(row: Any) -> Usage:
    """Read a usage from a row with its columns; a row without any entry used nothing."""
    return Usage(*(row[name] for name in _FIELDS)) if row["calls"] is not None else Usage()


def brief(usage: Usage) -> dict[str, Any]:
    """Return the fields that are not at their default, for a turn's JSON column."""
    spent = usage.to_dict()
    return {name: value for name, value in spent.items() if value != _NOTHING[name]}

"""What was spent, on what: one ledger for episodes and optimiser calls."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from skillwright.core import Usage
from skillwright.runs.archive import RunTable
from skillwright.runs.database import Database

_FIELDS = tuple(one.name for one in fields(Usage))
_COUNTS = tuple(name for name in _FIELDS if name != "cost_usd")
_NOTHING = Usage().to_dict()

COLUMNS = ", ".join(f"u.{name}" for name in _FIELDS)
"""All that `read_usage` reads, of a table ``usage`` called ``u``."""

# A sum with an unknown price in it is unknown: SUM would pass over the NULL.
SUMS = (
    ", ".join(f"sum(u.{name}) AS {name}" for name in _COUNTS)
    + ", CASE WHEN count(u.cost_usd) = count(u.id) THEN sum(u.cost_usd) END AS cost_usd"
)


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
        f" VALUES (?, ?, ?{', ?' * len(_FIELDS)})",
        [
            (purpose, episode, call, *(getattr(spent, name) for name in _FIELDS))
            for purpose, spent in usage.items()
        ],
    )


@dataclass(frozen=True, slots=True)
class Bill:
    """What was consumed, and how much of it has a known price.

    Attributes:
        tokens: Prompts and answers together, as far as they are known.
        known_usd: What is known to have been paid.
        unknown_calls: Calls whose cost nobody said, or that stand in one entry with such a call.
        dearest_usd: The most that a call of a known entry cost on average; ``None``: none is known.
        latest: The number of the latest entry.
    """

    tokens: int = 0
    known_usd: float = 0.0
    unknown_calls: int = 0
    dearest_usd: float | None = None
    latest: int = 0

    def __add__(self, later: "Bill") -> "Bill":
        dearest = [one.dearest_usd for one in (self, later) if one.dearest_usd is not None]
        return Bill(
            tokens=self.tokens + later.tokens,
            known_usd=self.known_usd + later.known_usd,
            unknown_calls=self.unknown_calls + later.unknown_calls,
            dearest_usd=max(dearest, default=None),
            latest=later.latest,
        )

    @property
    def usd(self) -> float | None:
        """What it cost, an unknown call at the price of the dearest; ``None`` where none is known.

        An unknown price is never nothing, and one answer without it says little of the others.
        """
        if self.unknown_calls and self.dearest_usd is None:
            return None
        return self.known_usd + self.unknown_calls * (self.dearest_usd or 0.0)


def read_usage(row: Any) -> Usage:
    """Read a usage from a row with its columns; a row without any entry used nothing."""
    return Usage(**{name: row[name] for name in _FIELDS}) if row["calls"] is not None else Usage()


def brief(usage: Usage) -> dict[str, Any]:
    """Return the fields that are not at their default, for a turn's JSON column."""
    spent = usage.to_dict()
    return {name: value for name, value in spent.items() if value != _NOTHING[name]}


class UsageTable(RunTable):
    """What a run has consumed."""

    def record_usage(self, usage: Mapping[str, Usage]) -> None:
        """Record what was consumed for nothing that is stored itself, by purpose."""
        with self._database.transaction():
            spend(self._database, {name: one for name, one in usage.items() if one != Usage()})

    def usage_by_purpose(self) -> dict[str, Usage]:
        """Return what was consumed so far per purpose, over all resumes, failures included."""
        query = f"SELECT purpose, {SUMS} FROM usage u GROUP BY purpose ORDER BY purpose"
        return {row["purpose"]: read_usage(row) for row in self._database.rows(query)}

    def usage_since(self, entry: int = 0) -> tuple[Usage, int]:
        """Return what was consumed after an entry of the ledger, and the latest entry's number."""
        (row,) = self._database.rows(
            f"SELECT max(u.id) AS latest, {SUMS} FROM usage u WHERE u.id > ?", (entry,)
        )
        return read_usage(row), entry if row["latest"] is None else row["latest"]

    def bill(self, after: int = 0) -> Bill:
        """Return what was consumed after an entry of the ledger, with what is unknown of it."""
        (row,) = self._database.rows(
            "SELECT coalesce(sum(u.input_tokens + u.output_tokens), 0),"
            " coalesce(sum(u.cost_usd), 0.0),"
            " coalesce(sum(CASE WHEN u.cost_usd IS NULL THEN max(u.calls, 1) END), 0),"
            " max(CASE WHEN u.calls > 0 AND u.cost_usd > 0 THEN u.cost_usd / u.calls END),"
            " coalesce(max(u.id), ?) FROM usage u WHERE u.id > ?",
            (after, after),
        )
        return Bill(*row)

"""A domain's database: initial tables that all episodes share, and one episode's changes."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

from skillwright.worlds.tau_bench.tau_core.domain import Domain, Record, Records

# The canonical text of a state is equal exactly if tau-bench's hash is. Unlike JSON it
# distinguishes 50 and 50.0, true and 1, "1" and 1, and the order of lists; it ignores the order of
# keys. Source: tau-bench (arXiv:2406.12045), consistent hash of its base environment.


def canonical_text(value: Any) -> str:
    """Return the canonical text of one record."""
    return str(_hashable(value))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value


def _refuse(record: dict[str, Any], *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "this record is shared by every episode and cannot be changed; put a new one instead"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses changes; JSON encoders and ``==`` treat it as a plain one."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # The default sets items, which this class refuses.
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Return a JSON value with every object a `FrozenDict` and every array a tuple."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(freeze(inner) for inner in value)
    return value


class RecordRef(NamedTuple):
    """The table and id of a record."""

    table: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}/{self.key}"


class Tables:
    """The initial database: immutable and thread-safe.

    Attributes:
        index: The lookup index that `Domain.index` built.
    """

    def __init__(self, domain: Domain, tables: Mapping[str, Any]) -> None:
        self.domain = domain
        self.records: Records = {name: freeze(tables[name]) for name in domain.tables}
        self.index = domain.index(self.records)
        # By place: a record as JSON text, and as canonical text; "" if it does not exist.
        self.text = cache(lambda place: json.dumps(self.records[place.table][place.key]))
        self.canonical = cache(self._canonical)
        # By table, for `Database.state_hash`: the texts of its records by id, and of all.
        self.rows = cache(self._rows)
        self.whole = cache(lambda table: _joined(table, self.rows(table)))

    def _canonical(self, place: RecordRef) -> str:
        record = self.records[place.table].get(place.key)
        return "" if record is None else canonical_text(record)

    def _rows(self, table: str) -> dict[str, str]:
        return {key: _pair(key, canonical_text(row)) for key, row in self.records[table].items()}


class Database:
    """The database of one episode: records are replaced or added, never changed.

    Attributes:
        unlocked: Names of tools that this episode may call besides the domain's usual ones.
    """

    __slots__ = ("changed", "tables", "unlocked")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.changed: dict[RecordRef, Record] = {}
        self.unlocked: set[str] = set()

    def find(self, table: str, key: Any) -> Record | None:
        """Return a record."""
        pristine = self.tables.records[table].get(key)  # raises for what cannot be an id
        return self.changed.get(RecordRef(table, key), pristine)

    def rows(self, table: str) -> list[tuple[str, Record]]:
        """Return the ids and records of a table, added ones last."""
        own = {ref.key: row for ref, row in self.changed.items() if ref.table == table}
        return [*{**self.tables.records[table], **own}.items()]

    def text(self, table: str, key: str) -> str:
        """Return a record as JSON text, as tools show it."""
        ref = RecordRef(table, key)
        own = self.changed.get(ref)
        return self.tables.text(ref) if own is None else json.dumps(own)

    def put(self, table: str, key: str, record: Record) -> str:
        """Replace or add a record; return it as JSON text."""
        self.changed[RecordRef(table, key)] = record
        return json.dumps(record)

    def canonical(self, ref: RecordRef) -> str:
        """Return the canonical text of a record, or ""."""
        own = self.changed.get(ref)
        return self.tables.canonical(ref) if own is None else canonical_text(own)

    def record(self, ref: RecordRef) -> Record:
        """Return a record, or an empty one."""
        return self.find(ref.table, ref.key) or {}

    def state_hash(self) -> str:
        """Return tau-bench's SHA-256 of all records; slow, and not needed for grading."""
        texts = []
        for table in sorted(self.tables.records):
            own = {ref.key: row for ref, row in self.changed.items() if ref.table == table}
            if not own:
                texts.append(self.tables.whole(table))
                continue
            rows = {key: _pair(key, canonical_text(row)) for key, row in own.items()}
            texts.append(_joined(table, {**self.tables.rows(table), **rows}))
        return hashlib.sha256(_tuple(texts).encode()).hexdigest()


def _tuple(parts: Iterable[str]) -> str:
    listed = list(parts)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _pair(key: str, text: str) -> str:
    return f"({key!r}, {text})"


def _joined(table: str, rows: Mapping[str, str]) -> str:
    return _pair(table, _tuple(rows[key] for key in sorted(rows)))

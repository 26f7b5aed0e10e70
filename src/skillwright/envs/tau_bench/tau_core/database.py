"""The store's database: pristine tables that all episodes share, and what one episode changed."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

# The text by which two states of the database are the same or not, as tau-bench's hash tells them.
#
# Unlike JSON it tells apart 50 and 50.0, true and 1, "1" and 1, and the order of lists; it does
# not see the order of keys.
#
# Source: tau-bench (arXiv:2406.12045), consistent hash of its base environment.


def canonical_text(value: Any) -> str:
    """Return the text of one record; equal exactly where tau-bench's hash would be."""
    return str(_hashable(value))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _hashable(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value


# JSON values that cannot be changed, so that any number of episodes can share them.


def _refuse(record: dict[str, Any], *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "this record is shared by every episode and cannot be changed; put a new one instead"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; JSON encoders and ``==`` take it for a plain one."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuilds a dict by setting its items, which this one refuses.
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """Return a JSON value with every object a `FrozenDict` and every array a tuple."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return tuple(freeze(inner) for inner in value)
    return value


Record = Mapping[str, Any]

TABLES: Final = ("users", "products", "orders")


class RecordRef(NamedTuple):
    """Where a record stands."""

    table: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}/{self.key}"


class Tables:
    """The database as it was loaded: frozen, built once, safe to read from any thread."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.records: Mapping[str, Mapping[str, Record]] = {
            name: freeze(tables[name]) for name in TABLES
        }
        self.user_id_by_email: dict[str, str] = {}
        self.user_ids_by_first_name: dict[str, list[str]] = {}
        for user_id, user in self.records["users"].items():
            self.user_id_by_email.setdefault(user["email"].lower(), user_id)
            first_name = user["name"]["first_name"].lower()
            self.user_ids_by_first_name.setdefault(first_name, []).append(user_id)
        products = self.records["products"].values()
        by_name = {product["name"]: product["product_id"] for product in products}
        self.product_types: str = json.dumps(dict(sorted(by_name.items())))
        # By place: a record as JSON text, and as canonical text.
        self.text = cache(lambda place: json.dumps(self.records[place.table][place.key]))
        self.canonical = cache(lambda place: canonical_text(self.records[place.table][place.key]))


class Database:
    """What one episode sees. Records are never changed, only replaced by new ones."""

    __slots__ = ("changed", "tables")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.changed: dict[RecordRef, Record] = {}  # the records that were put

    def user(self, user_id: Any) -> Record | None:
        """Return a user."""
        return self._find("users", user_id)

    def order(self, order_id: Any) -> Record | None:
        """Return an order."""
        return self._find("orders", order_id)

    def product(self, product_id: Any) -> Record | None:
        """Return a product; no tool changes one."""
        return self.tables.records["products"].get(product_id)

    def text(self, table: str, key: str) -> str:
        """Return a record as JSON text, as tools show it."""
        ref = RecordRef(table, key)
        own = self.changed.get(ref)
        return self.tables.text(ref) if own is None else json.dumps(own)

    def put(self, table: str, key: str, record: Record) -> str:
        """Replace a record; return the new one as JSON text."""
        self.changed[RecordRef(table, key)] = record
        return json.dumps(record)

    def canonical(self, ref: RecordRef) -> str:
        """Return the canonical text of a record."""
        own = self.changed.get(ref)
        return self.tables.canonical(ref) if own is None else canonical_text(own)

    def record(self, ref: RecordRef) -> Record:
        """Return a record."""
        own = self.changed.get(ref)
        return self.tables.records[ref.table][ref.key] if own is None else own

    def _find(self, table: str, key: Any) -> Record | None:
        pristine = self.tables.records[table].get(key)
        # No tool adds a record, so what is not in the tables is nowhere.
        return None if pristine is None else self.changed.get(RecordRef(table, key), pristine)

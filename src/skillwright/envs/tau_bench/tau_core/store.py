"""A data set: a folder's files, each read at most once per process and then shared."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from skillwright.core import DataError, did_you_mean
from skillwright.core.jsonio import digest
from skillwright.envs.tau_bench.tau_core.checksums import checked_bytes, manifest_of
from skillwright.envs.tau_bench.tau_core.database import TABLES, Tables
from skillwright.envs.tau_bench.tau_core.reward import GoldState, gold_state
from skillwright.envs.tau_bench.tau_core.schemas import SCHEMAS
from skillwright.envs.tau_bench.tau_core.tasks import RetailTask, read_tasks

T = TypeVar("T")

_KINDS: Final[Mapping[str, Mapping[str, type]]] = {
    "users": {"name": dict, "address": dict, "email": str, "payment_methods": dict, "orders": list},
    "products": {"name": str, "product_id": str, "variants": dict},
    "orders": {
        "order_id": str,
        "user_id": str,
        "address": dict,
        "items": list,
        "status": str,
        "payment_history": list,
    },
}
_OPTIONAL: Final = frozenset({"rules.json", "tools.json"})
_CALLED: Final[Mapping[type, str]] = {dict: "an object", list: "a list", str: "a text"}


class Store:
    """A data set; ask `open_store` for it, so that a process has one per folder.

    The folder has ``users.json``, ``products.json``, ``orders.json``, ``wiki.md`` (the policy),
    ``tasks_<split>.json`` and, where there are any, ``rules.json`` and ``tools.json``. Nothing is
    read before it is asked for; every file is compared with its checksum. Safe to use from any
    thread.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Any] = {}
        self._golds: dict[tuple[str, int], GoldState] = {}
        self._lock = threading.RLock()

    @property
    def tables(self) -> Tables:
        """The pristine database."""
        return self._once("tables", self._read_tables)

    @property
    def wiki(self) -> str:
        """The policy that the agent is given."""
        return self._once("wiki", lambda: self._text("wiki.md"))

    @property
    def rules(self) -> tuple[str, ...]:
        """Short rules that the agent may be given too; empty where the data has none."""
        return self._once("rules", lambda: self._listed("rules.json", str, "texts") or ())

    @property
    def tool_schemas(self) -> tuple[Mapping[str, Any], ...]:
        """How the tools are described: in the data's own words, else in ours."""
        tools = self._once("tools", lambda: self._listed("tools.json", dict, "objects"))
        return SCHEMAS if tools is None else tools

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, sorted."""
        names = (path.stem for path in self.folder.glob("tasks_*.json"))
        return tuple(sorted(name.removeprefix("tasks_") for name in names))

    @property
    def checksum(self) -> str:
        """The SHA-256 of all checksums of the files that are there; names the data set.

        Asking for it compares every file with its checksum, the first time, and parses none.
        """
        return self._once("checksum", self._read_checksum)

    def tasks(self, split: str) -> tuple[RetailTask, ...]:
        """Return the tasks of a split."""
        name = f"tasks_{split}.json"
        known: tuple[RetailTask, ...] | None = self._known.get(name)
        if known is not None:
            return known
        if split not in self.splits:
            raise DataError(
                f"task_split is {split!r}: the tau-bench data in {str(self.folder)!r} has no "
                f"tasks_{split}.json. {did_you_mean(split, self.splits)}"
            )
        return self._once(name, lambda: read_tasks(self._json(name), str(self.folder / name)))

    def task(self, split: str, index: int) -> RetailTask:
        """Return a task."""
        tasks = self.tasks(split)
        if not 0 <= index < len(tasks):
            raise DataError(
                f"task_index is {index}, but split {split!r} has the tasks 0 to {len(tasks) - 1}"
            )
        return tasks[index]

    def gold(self, split: str, index: int) -> GoldState:
        """Return the state that a task's gold actions lead to; computed on first use."""
        found = self._golds.get((split, index))
        if found is None:
            actions = self.task(split, index).actions
            found = self._golds[(split, index)] = gold_state(self.tables, actions)
        return found

    def load(self) -> None:
        """Read everything, so that what is wrong with it shows now."""
        _ = (self.tables, self.wiki, self.rules, self.tool_schemas, self.checksum)
        for split in self.splits:
            self.tasks(split)

    def _once(self, name: str, read: Callable[[], T]) -> T:
        # Read without the lock first: after the first episode this is all that happens.
        if name not in self._known:
            with self._lock:
                if name not in self._known:
                    self._known[name] = read()
        value: T = self._known[name]
        return value

    def _bytes(self, name: str) -> bytes:
        manifest = self._once("manifest", lambda: manifest_of(self.folder))
        return checked_bytes(self.folder, name, manifest)

    def _text(self, name: str) -> str:
        try:
            return self._bytes(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{str(self.folder / name)!r} is not UTF-8") from error

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._text(name))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{str(self.folder / name)!r} is not JSON: {error}") from error

    def _read_tables(self) -> Tables:
        try:
            return Tables({name: self._table(name) for name in TABLES})
        except RecursionError as error:
            raise DataError(f"the data in {str(self.folder)!r} is nested too deeply") from error

    def _table(self, table: str) -> Mapping[str, Any]:
        name = f"{table}.json"
        records = self._json(name)
        if not isinstance(records, dict):
            raise DataError(f"{str(self.folder / name)!r} is not an object of records by id")
        for key, record in records.items():
            where = f"{str(self.folder / name)!r}: {key!r}"
            if not isinstance(record, dict):
                raise DataError(f"{where} is not an object")
            lacks = [field for field in _KINDS[table] if field not in record]
            if lacks:
                raise DataError(f"{where} lacks {', '.join(lacks)}")
            for field, kind in _KINDS[table].items():
                if not isinstance(record[field], kind):
                    raise DataError(f"{where}: {field} is not {_CALLED[kind]}")
            if table == "users":
                _check_name(record["name"], where)
        return records

    def _listed(self, name: str, kind: type[T], called: str) -> tuple[T, ...] | None:
        """Read a file that not every data set has."""
        if not (self.folder / name).exists():
            return None
        listed = self._json(name)
        if not isinstance(listed, list) or not all(isinstance(one, kind) for one in listed):
            raise DataError(f"{str(self.folder / name)!r} is not a list of {called}")
        return tuple(listed)

    def _read_checksum(self) -> str:
        manifest = self._once("manifest", lambda: manifest_of(self.folder))
        needed = {"wiki.md", *(f"{table}.json" for table in TABLES)}
        # Every split is there to be read, but not every data set has rules or all the splits.
        there = {path.name for path in self.folder.glob("*.json")}
        present = sorted(
            needed
            | {name for name in there if name in manifest or name[:6] == "tasks_"}
            | (there & _OPTIONAL)
        )
        for name in present:
            self._bytes(name)
        return digest([[name, manifest[name]] for name in present])


def _check_name(name: Mapping[str, Any], where: str) -> None:
    for part in ("first_name", "last_name"):
        if not isinstance(name.get(part), str):
            raise DataError(f"{where}: name has no text {part}")


_stores: dict[str, Store] = {}


def open_store(folder: str | Path) -> Store:
    """Return the data set of a folder: one object per process and folder, and nothing read yet."""
    name = str(folder)
    found = _stores.get(name)
    # Two threads may both build one; both then take the one that was put first.
    return _stores.setdefault(name, Store(Path(name))) if found is None else found

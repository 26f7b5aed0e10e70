"""A data set: a folder's files, each read at most once per process and then shared."""

import copy
import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from skillwright.core import DataError, did_you_mean
from skillwright.core.jsonio import digest, read_text
from skillwright.datasets import cache_dir
from skillwright.envs.tau_bench.tau_core.database import TABLES, Database, Tables
from skillwright.envs.tau_bench.tau_core.reward import (
    Action,
    GoldState,
    Grade,
    RetailTask,
    gold_state,
    grade,
    read_tasks,
)
from skillwright.envs.tau_bench.tau_core.schemas import SCHEMAS
from skillwright.envs.tau_bench.tau_core.tools import ToolResult, call_tool

# Where the data is: named by the caller, fetched, or the small store that comes with us.


DATA_VARIABLE: Final = "SKILLWRIGHT_TAU_DATA"
FETCH_COMMAND: Final = "skillwright data tau-bench"
BUILT_IN: Final = Path(__file__).resolve().parent.parent / "built_in"
ASK_FOR_BUILT_IN: Final = "built-in"
"""Named as the folder, it asks for the small store."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A folder with data, and how it was found."""

    path: str  # the folder
    origin: str  # `env_config.data_dir`, `$SKILLWRIGHT_TAU_DATA`, `fetched` or `built-in`


def fetched_dir() -> Path:
    """Return the folder that fetched data is put into; it need not be there yet."""
    return cache_dir() / "tau_retail"


def data_dir(configured: str | os.PathLike[str] | None = None) -> DataSource:
    """Find the folder with the data; what is in it is checked when it is read.

    Args:
        configured: A folder that was named in a configuration, or ``built-in``; ``None`` looks at
            ``$SKILLWRIGHT_TAU_DATA``, then for fetched data, then for the built-in store.

    Raises:
        DataError: There is none; the message names the command that fetches it.
    """
    if configured == ASK_FOR_BUILT_IN:
        return DataSource(str(BUILT_IN), "built-in")
    if configured:
        return DataSource(_absolute(configured), "env_config.data_dir")
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return DataSource(_absolute(named), f"${DATA_VARIABLE}")
    fetched = fetched_dir()
    if fetched.is_dir():
        return DataSource(_absolute(fetched), "fetched")
    if BUILT_IN.is_dir():
        return DataSource(str(BUILT_IN), "built-in")
    raise DataError(
        f"there is no tau-bench data: run `{FETCH_COMMAND}`, or set {DATA_VARIABLE} (or "
        "env_config.data_dir) to a folder that has it"
    )


def _absolute(folder: str | os.PathLike[str]) -> str:
    # Not Path.resolve: that asks the disk about every part, for every episode.
    return os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111


# What every data file must be, to the byte: a score over other data is another score.


MANIFEST: Final = "SHA256SUMS"
"""A data set of one's own brings this file, as ``sha256sum *`` writes it."""

UPSTREAM: Final[Mapping[str, str]] = {
    "orders.json": "2598a12586d28f2d6bd16bc86f4c800029b6af18e0abb5c475ef5c869c11ced1",
    "products.json": "a9eabcc1a9742c5f5288c2779acce52b9308423383ed24706bbaf0889f762a0f",
    "rules.json": "9fdb9bd32797e10585ee77096e9ba184403b0ab7d32108e31210e2cddbcaf01a",
    "tasks_dev.json": "2132891e3f01e736f38ee972274c972f2cd4a57f822066d2968ee42b751cde44",
    "tasks_test.json": "7f452f9380a11c91254c9ab13e15ceb8a4f222175cc274d4243fd744eed9eb67",
    "tasks_train.json": "3e36fd821dead3767f1f456efdeb4d62c824b7d2cf280971ce0689797f8071c6",
    "tools.json": "da43b49f4783a9aa82f97f125b2f4c9b56d053cc27e09903ad0ae075026d72ac",
    "users.json": "6f4fd104cc5e80b92166c4035315c31532c6cea52a90dcdf18425ee7f87c2b82",
    "wiki.md": "d539fd2a46a8b8dd2e934ff9ed92f43e9f6b56bc7a718db8d2803ba8ad8f6bf7",
}
"""The retail data of tau-bench at commit 59a200c, converted to JSON."""


def manifest_of(folder: Path) -> Mapping[str, str]:
    """Return file name -> SHA-256: from the folder's own manifest, else tau-bench's."""
    path = folder / MANIFEST
    if not path.is_file():
        return UPSTREAM
    sums: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "checksum file").splitlines(), 1):
        digest, _, name = line.partition(" ")
        if len(digest) != 64 or not name.lstrip(" *"):
            raise DataError(f"{str(path)!r}, line {number}: not '<sha256>  <file>' but {line!r}")
        sums[name.lstrip(" *")] = digest.lower()
    return sums


def checked_bytes(folder: Path, name: str, manifest: Mapping[str, str]) -> bytes:
    """Read a data file and compare it with its checksum."""
    path, again = folder / name, f"run `{FETCH_COMMAND}`"
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"tau-bench data: there is no {str(path)!r}; {again}, or set {DATA_VARIABLE} (or "
            "env_config.data_dir) to a folder that has it"
        ) from error
    except OSError as error:
        raise DataError(f"tau-bench data {str(path)!r} cannot be read: {error.strerror}") from error
    expected, found = manifest.get(name), hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"tau-bench data {str(path)!r} is not what it must be: SHA-256 {found}, expected "
            f"{expected or 'one in the ' + MANIFEST + ' beside it'}. It is damaged or was changed; "
            f"{again}. Data of your own needs a {MANIFEST} file (`sha256sum * > {MANIFEST}`)."
        )
    return content


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


# One customer's call: the task, the database as this episode leaves it, and who is called.


RESPOND = "respond"


class TauEnv:
    """The domain's side of an episode; cheap to build, since it shares everything but changes.

    Attributes:
        actions: Everything that the agent did, as it was asked for.
    """

    def __init__(
        self,
        store: Store,
        split: str,
        index: int,
        make_user: Callable[[], Any] | None = None,
    ) -> None:
        self.store, self.split, self.index = store, split, index
        self.actions: list[Action] = []
        self._shared_task = store.task(split, index)
        self._own_task: RetailTask | None = None
        self._db: Database | None = None
        self._make_user = make_user
        self._user: Any = None

    @property
    def user(self) -> Any:
        """The simulated user; another may be put in its place."""
        if self._user is None and self._make_user is not None:
            self._user = self._make_user()
        return self._user

    @user.setter
    def user(self, user: Any) -> None:
        self._user = user

    @property
    def task(self) -> RetailTask:
        """The task, in a copy of this episode's own."""
        if self._own_task is None:
            self._own_task = copy.deepcopy(self._shared_task)
        return self._own_task

    @property
    def instruction(self) -> str:
        """What the simulated user reads."""
        return self._shared_task.instruction

    @property
    def db(self) -> Database:
        """The database of this episode."""
        if self._db is None:
            self._db = Database(self.store.tables)
        return self._db

    @property
    def said(self) -> Sequence[str]:
        """What the agent said to the user, in order."""
        spoken = (one.kwargs.get("content") for one in self.actions if one.name == RESPOND)
        return [content for content in spoken if isinstance(content, str)]

    def restart(self) -> None:
        """Begin again with the pristine database."""
        self.actions = []
        self._db = Database(self.store.tables)

    def call(self, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
        """Call a tool, whatever its name and arguments; what is wrong with them is the answer."""
        self.actions.append(Action(name, kwargs))
        return call_tool(self.db, name, kwargs)

    def say(self, content: str) -> None:
        """Write down what the agent says; whoever holds the user asks for the reply."""
        self.actions.append(Action(RESPOND, {"content": content}))

    def grade(self) -> Grade:
        """Judge the episode as it stands; changes nothing."""
        gold = self.store.gold(self.split, self.index)
        return grade(self.db, gold, self.said, self._shared_task.outputs)

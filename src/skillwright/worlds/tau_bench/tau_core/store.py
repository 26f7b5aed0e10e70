"""A data set: the files of a folder, each read at most once per process."""

import copy
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from skillwright.core import DataError, did_you_mean
from skillwright.core.jsonio import digest, read_text
from skillwright.datasets import cache_dir
from skillwright.worlds.tau_bench.tau_core.airline import AIRLINE
from skillwright.worlds.tau_bench.tau_core.banking import BANKING, DOCUMENTS, GREP, policy
from skillwright.worlds.tau_bench.tau_core.database import Database, Tables
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.retail import RETAIL
from skillwright.worlds.tau_bench.tau_core.reward import (
    Action,
    GoldState,
    Grade,
    TauTask,
    begin,
    gold_state,
    grade,
    read_tasks,
)
from skillwright.worlds.tau_bench.tau_core.tau3_airline import TAU3_AIRLINE
from skillwright.worlds.tau_bench.tau_core.tau3_retail import TAU3_RETAIL
from skillwright.worlds.tau_bench.tau_core.telecom import TELECOM
from skillwright.worlds.tau_bench.tau_core.tools import ToolResult, call_tool

DOMAINS: Final[Mapping[str, Domain]] = {
    one.name: one for one in (RETAIL, AIRLINE, TAU3_RETAIL, TAU3_AIRLINE, TELECOM, BANKING)
}
"""The domains by name."""


BUILT_IN: Final = Path(__file__).resolve().parent.parent / "built_in"
ASK_FOR_BUILT_IN: Final = "built-in"
"""The folder name that selects the built-in store."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A folder with data, and how it was found."""

    path: str
    origin: str  # `env_config.data_dir`, `$SKILLWRIGHT_TAU_DATA`, `fetched` or `built-in`


def fetched_dir(domain: str = RETAIL.name) -> Path:
    """Return the folder for fetched data; it may not exist yet."""
    return cache_dir() / (domain if domain.startswith("tau3_") else f"tau_{domain}")


def data_dir(
    configured: str | os.PathLike[str] | None = None, domain: str = RETAIL.name
) -> DataSource:
    """Find the folder with the data; its content is checked when it is read.

    Args:
        configured: A folder from a configuration, or ``built-in``; ``None`` tries the domain's
            variable (``$SKILLWRIGHT_TAU_DATA``, ``$SKILLWRIGHT_TAU_AIRLINE_DATA``), then fetched
            data, then the built-in store, which is of retail.
        domain: Name of the domain.

    Raises:
        DataError: There is none; the message names the command that fetches it.
    """
    variable, has_built_in = DOMAINS[domain].data_variable, domain == RETAIL.name
    if configured == ASK_FOR_BUILT_IN and has_built_in:
        return DataSource(str(BUILT_IN), "built-in")
    if configured == ASK_FOR_BUILT_IN:
        raise DataError(f"the built-in store is of retail; {_how_to_get(DOMAINS[domain])}")
    if configured:
        return DataSource(_absolute(configured), "env_config.data_dir")
    named = os.environ.get(variable)
    if named:
        return DataSource(_absolute(named), f"${variable}")
    fetched = fetched_dir(domain)
    if fetched.is_dir():
        return DataSource(_absolute(fetched), "fetched")
    if has_built_in and BUILT_IN.is_dir():
        return DataSource(str(BUILT_IN), "built-in")
    raise DataError(f"there is no data of tau-bench {domain}: {_how_to_get(DOMAINS[domain])}")


def _how_to_get(domain: Domain) -> str:
    return (
        f"run `{domain.fetch_command}`, or set {domain.data_variable} (or env_config.data_dir) to "
        "a folder that has it"
    )


def _absolute(folder: str | os.PathLike[str]) -> str:
    # Not Path.resolve: it accesses the disk for every part, in every episode.
    return os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111


# Checksums of data files: other data gives other scores.


MANIFEST: Final = "SHA256SUMS"
"""The manifest of a data set, in the format of ``sha256sum *``."""


def manifest_of(folder: Path, domain: Domain) -> Mapping[str, str]:
    """Return file name -> SHA-256 from the folder's own manifest, else tau-bench's."""
    path = folder / MANIFEST
    if not path.is_file():
        return domain.upstream
    sums: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "checksum file").splitlines(), 1):
        digest, _, name = line.partition(" ")
        if len(digest) != 64 or not name.lstrip(" *"):
            raise DataError(f"{str(path)!r}, line {number}: not '<sha256>  <file>' but {line!r}")
        sums[name.lstrip(" *")] = digest.lower()
    return sums


def checked_bytes(folder: Path, name: str, manifest: Mapping[str, str], domain: Domain) -> bytes:
    """Read a data file and compare it with its checksum."""
    path = folder / name
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"tau-bench data: there is no {str(path)!r}; {_how_to_get(domain)}"
        ) from error
    except OSError as error:
        raise DataError(f"tau-bench data {str(path)!r} cannot be read: {error.strerror}") from error
    expected, found = manifest.get(name), hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"tau-bench data {str(path)!r} is not what it must be: SHA-256 {found}, expected "
            f"{expected or 'one in the ' + MANIFEST + ' beside it'}. It is damaged or was changed; "
            f"run `{domain.fetch_command}`. Data of your own needs a {MANIFEST} file "
            f"(`sha256sum * > {MANIFEST}`)."
        )
    return content


def _refuse_other_domain(folder: Path, domain: Domain) -> None:
    there = {path.stem for path in folder.glob("*.json")}
    if there.issuperset(domain.tables):
        return
    for one in DOMAINS.values():
        if there.issuperset(one.tables):
            raise DataError(
                f"{str(folder)!r} has the data of tau-bench {one.name}, and env_config.domain is "
                f"{domain.name!r}; set domain: {one.name}, or name a folder with that of the "
                f"{domain.place}"
            )


T = TypeVar("T")

_OPTIONAL: Final = frozenset({"prompts.json", "rules.json", "tools.json"})
_CALLED: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a decimal number",
    bool: "true or false",
}


class Store:
    """A data set; `open_store` returns one per folder and process.

    The folder has a file for every table of the domain (``users.json``), ``wiki.md`` (the policy),
    ``tasks_<split>.json`` and optionally ``rules.json`` and ``tools.json``. Files are read on
    demand and compared with their checksums. Thread-safe.
    """

    def __init__(self, folder: Path, domain: Domain = RETAIL) -> None:
        self.folder, self.domain = folder, domain
        self._known: dict[str, Any] = {}
        self._golds: dict[tuple[str, int], GoldState] = {}
        self._lock = threading.RLock()

    @property
    def tables(self) -> Tables:
        """The initial database."""
        return self._once("tables", self._read_tables)

    @property
    def wiki(self) -> str:
        """The agent's policy."""
        return self._once("wiki", lambda: self._text("wiki.md"))

    def policy(self, retrieval: str, documents: Sequence[str]) -> str:
        """Return the agent's policy for a way to read documents, with the task's own if it has."""
        if not (self.folder / "prompts.json").exists():
            return self.wiki
        prompts = self._once("prompts", lambda: self._json("prompts.json"))
        if not isinstance(prompts, dict) or not isinstance(prompts.get(retrieval), str):
            raise DataError(f"{str(self.folder / 'prompts.json')!r} has no text for {retrieval}")
        return policy(prompts[retrieval], self.tables.records[DOCUMENTS], documents)

    @property
    def rules(self) -> tuple[str, ...]:
        """Optional short rules for the agent; empty if the data has none."""
        return self._once("rules", lambda: self._listed("rules.json", str, "texts") or ())

    @property
    def tool_schemas(self) -> tuple[Mapping[str, Any], ...]:
        """The tools' descriptions from the data, else ours."""
        tools = self._once("tools", lambda: self._listed("tools.json", dict, "objects"))
        return self.domain.schemas if tools is None else tools

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

    def tasks(self, split: str) -> tuple[TauTask, ...]:
        """Return the tasks of a split."""
        name = f"tasks_{split}.json"
        known: tuple[TauTask, ...] | None = self._known.get(name)
        if known is not None:
            return known
        if split not in self.splits:
            raise DataError(
                f"task_split is {split!r}: the tau-bench data in {str(self.folder)!r} has no "
                f"tasks_{split}.json. {did_you_mean(split, self.splits)}"
            )
        return self._once(name, lambda: self._read_tasks(name))

    def task(self, split: str, index: int) -> TauTask:
        """Return a task."""
        tasks = self.tasks(split)
        if not 0 <= index < len(tasks):
            raise DataError(
                f"task_index is {index}, but split {split!r} has the tasks 0 to {len(tasks) - 1}"
            )
        return tasks[index]

    def gold(self, split: str, index: int) -> GoldState:
        """Return the state after a task's gold actions; computed on first use."""
        found = self._golds.get((split, index))
        if found is None:
            task = self.task(split, index)
            found = self._golds[(split, index)] = gold_state(self.tables, task)
        return found

    def load(self) -> None:
        """Read all files, to find faults early."""
        _ = (self.tables, self.wiki, self.rules, self.tool_schemas, self.checksum)
        for split in self.splits:
            self.tasks(split)

    def _once(self, name: str, read: Callable[[], T]) -> T:
        # Look without the lock first; after the first episode this always succeeds.
        if name not in self._known:
            with self._lock:
                if name not in self._known:
                    self._known[name] = read()
        value: T = self._known[name]
        return value

    def _bytes(self, name: str) -> bytes:
        manifest = self._once("manifest", self._manifest)
        return checked_bytes(self.folder, name, manifest, self.domain)

    def _manifest(self) -> Mapping[str, str]:
        _refuse_other_domain(self.folder, self.domain)  # else its files would seem damaged
        return manifest_of(self.folder, self.domain)

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

    def _read_tasks(self, name: str) -> tuple[TauTask, ...]:
        return read_tasks(self._json(name), self.domain, str(self.folder / name))

    def _read_tables(self) -> Tables:
        try:
            tables = {name: self._table(name) for name in self.domain.tables}
            if self.domain.check:
                self.domain.check(tables)
            return Tables(self.domain, tables)
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
            _check_record(record, self.domain.tables[table], where)
        return records

    def _listed(self, name: str, kind: type[T], called: str) -> tuple[T, ...] | None:
        """Read an optional file."""
        if not (self.folder / name).exists():
            return None
        listed = self._json(name)
        if not isinstance(listed, list) or not all(isinstance(one, kind) for one in listed):
            raise DataError(f"{str(self.folder / name)!r} is not a list of {called}")
        return tuple(listed)

    def _read_checksum(self) -> str:
        manifest = self._once("manifest", self._manifest)
        needed = {"wiki.md", *(f"{table}.json" for table in self.domain.tables)}
        # Rules, and some of the splits, are optional.
        there = {path.name for path in self.folder.glob("*.json")}
        present = sorted(
            needed
            | {name for name in there if name in manifest or name[:6] == "tasks_"}
            | (there & _OPTIONAL)
        )
        for name in present:
            self._bytes(name)
        return digest([[name, manifest[name]] for name in present])


def _check_record(record: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> None:
    """Check the types of a record's fields; ``a.b`` is b in a, whose type is checked before."""
    lacks = [field for field in kinds if "." not in field and field not in record]
    if lacks:
        raise DataError(f"{where} lacks {', '.join(lacks)}")
    for field, kind in kinds.items():
        holder, _, inner = field.partition(".")
        value = record[holder].get(inner) if inner else record[holder]
        if not isinstance(value, kind):
            raise DataError(f"{where}: {field} is not {_CALLED[kind]}")


def is_original(store: Store) -> bool:
    """Tell whether the data says that it is the original's; its files are checked."""
    sums = manifest_of(store.folder, store.domain)
    return all(sums.get(name) == checksum for name, checksum in store.domain.upstream.items())


_stores: dict[tuple[str, str], Store] = {}


def open_store(folder: str | Path, domain: str = RETAIL.name) -> Store:
    """Return the data set of a folder: one object per process and folder, read on demand."""
    name = (str(folder), domain)
    found = _stores.get(name)
    if found is not None:
        return found
    # If two threads build one, both use the first one stored.
    return _stores.setdefault(name, Store(Path(folder), DOMAINS[domain]))


# One episode: its task, its database, and its user.


RESPOND = "respond"


class TauEnv:
    """The task, database and user of an episode; cheap to build, because data is shared.

    Attributes:
        actions: All actions of the agent, as requested.
        user_calls: All tool calls of the user.
    """

    def __init__(
        self,
        store: Store,
        split: str,
        index: int,
        make_user: Callable[[], Any] | None = None,
        unlocked: Iterable[str] = (GREP,),
    ) -> None:
        self.store, self.split, self.index = store, split, index
        self.unlocked = frozenset(unlocked)
        self.actions: list[Action] = []
        self.user_calls: list[Action] = []
        self._shared_task = store.task(split, index)
        self._own_task: TauTask | None = None
        self._db: Database | None = None
        self._make_user = make_user
        self._user: Any = None

    @property
    def user(self) -> Any:
        """The simulated user, made at the first read; it can be replaced."""
        if self._user is None and self._make_user is not None:
            self._user = self._make_user()
        return self._user

    @user.setter
    def user(self, user: Any) -> None:
        self._user = user

    @property
    def task(self) -> TauTask:
        """A copy of the task."""
        if self._own_task is None:
            self._own_task = copy.deepcopy(self._shared_task)
        return self._own_task

    @property
    def instruction(self) -> str:
        """The simulated user's instruction."""
        return self._shared_task.instruction

    @property
    def db(self) -> Database:
        """The episode's database."""
        if self._db is None:
            self._db = self._begun()
        return self._db

    def _begun(self) -> Database:
        db = begin(self.store.tables, self._shared_task)
        db.unlocked |= self.unlocked
        return db

    @property
    def said(self) -> Sequence[str]:
        """The agent's messages to the user, in order."""
        spoken = (one.kwargs.get("content") for one in self.actions if one.name == RESPOND)
        return [content for content in spoken if isinstance(content, str)]

    def restart(self) -> None:
        """Reset the database and the actions."""
        self.actions, self.user_calls = [], []
        self.store.gold(self.split, self.index)  # a label that cannot be checked raises now
        self._db = self._begun()

    def call(self, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
        """Call a tool; a wrong name or wrong arguments give an error as its result."""
        self.actions.append(Action(name, kwargs))
        return call_tool(self.db, name, kwargs)

    def call_by_user(self, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
        """Call one of the user's own tools."""
        self.user_calls.append(Action(name, kwargs, by_user=True))
        return call_tool(self.db, name, kwargs, by_user=True)

    def say(self, content: str) -> None:
        """Record a message of the agent; the caller gets the user's reply."""
        self.actions.append(Action(RESPOND, {"content": content}))

    def grade(self) -> Grade:
        """Grade the episode in its current state."""
        gold = self.store.gold(self.split, self.index)
        calls = [*self.actions, *self.user_calls]
        return grade(self.db, gold, self.said, self._shared_task, calls)

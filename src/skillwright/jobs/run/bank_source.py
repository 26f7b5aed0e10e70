"""A bank in a run: injection, statistics, and the store of work done for a bank."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skillwright.bank import (
    SEED_BANKS,
    Bank,
    BankError,
    BankSource,
    BankStore,
    CountedEpisode,
    Embedder,
    load_any_bank,
    load_bank,
    make_embedder,
    refuse_unsafe,
    save_bank,
    seed_bank,
)
from skillwright.config.bank import BankSection
from skillwright.config.run import RunConfig
from skillwright.core import (
    ConfigError,
    Purpose,
    RunError,
    SkillContext,
    SkillSource,
    SkillStatus,
    Task,
    Usage,
    skill_hash,
)
from skillwright.core.sqlite_file import is_read_only_folder
from skillwright.core.waits import waiting
from skillwright.runs import EpisodeSummary, Redactor, RunStore
from skillwright.runs.folder import LOCK_NAME, STORE_NAME, RunBusy, RunLock, holder_of

# The stored episodes from which skills may be learned or rated.


MADE = "made"
STUDIED_SPLITS = frozenset({"train", "survey"})
"""Values of `Task.split` for tasks that may be studied."""
_DECIDING_PHASES = frozenset({"gate", "release", "val", "test", "confirm", "baseline"})


def may_be_studied(episode: EpisodeSummary) -> bool:
    """Tell whether skills may be learned from an episode: its task is not in val or test."""
    return episode.split in STUDIED_SPLITS and episode.phase not in _DECIDING_PHASES


def count_use(runs: RunStore, bank: BankStore, success_threshold: float) -> None:
    """Add a run's episodes with injected skills to the bank's statistics, each once."""
    bank.count(_counted(runs, success_threshold))


def _counted(runs: RunStore, threshold: float) -> Iterator[CountedEpisode]:
    made = runs.events(MADE)
    # Equal episodes of different runs both count.
    run = f"{runs.folder.name}@{made[0].time}" if made else runs.folder.name
    for one in runs.episodes():
        if not one.skill_ids or not may_be_studied(one):
            continue
        score = one.reward if one.hard is None else one.hard
        if score is None:
            # A retry has the same key and counts, too.
            yield CountedEpisode(f"{run}:{one.key}:{one.id}", one.skill_ids, None)
        else:
            yield CountedEpisode(f"{run}:{one.key}", one.skill_ids, score >= threshold)


# The bank of a run, injected below the skill document.


KEPT_BANK = "bank.json"
"""File in the run's folder with a copy of the bank from the start of the run."""
SEED = "seed:"
_MOST_NAMED = 5


def read_bank(where: str, key: str = "skill.bank") -> Bank:
    """Read a bank that a setting or a command names.

    Args:
        where: ``seed:NAME``, a JSON file (our export, or SkillRL's), or a bank's file.
        key: The name of the setting, for messages.

    Raises:
        UsageError: There is no such bank, or it cannot be read.
    """
    if where.startswith(SEED):
        return seed_bank(where.removeprefix(SEED))
    path = Path(where)
    if not path.is_file():
        seeds = ", ".join(f"{SEED}{name}" for name in SEED_BANKS)
        raise ConfigError(
            f"{key}: there is no bank {where!r}. Name a bank's file, an export of one (.json), or "
            f"one of {seeds}; `skillwright bank import FILE --bank {where}` makes one"
        )
    if path.suffix.lower() == ".json":
        return load_any_bank(path)
    with BankStore.open(path, read_only=True) as store:
        return store.load()


def read_injected_bank(where: str, key: str = "skill.bank") -> Bank:
    """Read a bank that is going to be injected."""
    bank = read_bank(where, key)
    if not bank.active:
        raise ConfigError(f"{key}: no skill of the bank {where!r} is active. {_why_none(bank)}")
    return bank


def _why_none(bank: Bank) -> str:
    kept = [one.id for one in bank.skills if one.status is SkillStatus.PENDING]
    if kept:
        some = ", ".join(kept[:_MOST_NAMED])
        more = f" and {len(kept) - _MOST_NAMED} more" if len(kept) > _MOST_NAMED else ""
        return (
            f"Pending: {some}{more}. Approve them by `skillwright bank approve --bank FILE "
            "--config CONFIG`, where games decide, or by --without-gate REASON"
        )
    return (
        "So nothing would be injected: put skills into it by `skillwright bank distill` or `bank "
        "import`, or leave the setting out"
    )


def bank_source(
    bank: Bank, settings: BankSection, embedder: Embedder, store: BankStore | None = None
) -> BankSource:
    """Return the skill source of a bank."""
    return BankSource(bank, embedder, settings, settings.budget, store=store)


@dataclass(frozen=True, slots=True)
class DocumentAndBank:
    """A skill source: a document for all tasks, followed by skills retrieved from a bank."""

    document: str
    bank: SkillSource

    @property
    def waits(self) -> bool:
        """Whether retrieval calls a model or an endpoint."""
        return self.bank.waits

    def context(self, task: Task) -> SkillContext:
        """Return the skill text for a task."""
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skill text for each task."""
        found = self.bank.contexts(tasks)
        if not self.document.strip():
            return found
        start, name = self.document.rstrip("\n"), skill_hash(self.document)
        return [
            replace(one, text=f"{start}\n\n{one.text}", version=f"{name}+{one.version}")
            for one in found
        ]


@dataclass
class EmbedderLedger:
    """Records an embedder's usage in a run's store."""

    embedder: Embedder
    store: RunStore
    _settled: Usage = field(default_factory=Usage)

    def settle(self) -> None:
        """Record the usage since the last call."""
        used: Usage | None = getattr(self.embedder, "usage", None)
        if used is None or used == self._settled:
            return
        fresh, self._settled = _since(self._settled, used), used
        self.store.record_usage({Purpose.EMBED.value: fresh})


def _since(before: Usage, now: Usage) -> Usage:
    spent = {}
    for name in Usage.__dataclass_fields__:
        then, later = getattr(before, name), getattr(now, name)
        spent[name] = later if then is None or later is None else later - then
    return Usage(**spent)


@dataclass(frozen=True, slots=True)
class InjectedBank:
    """The open bank that a run injects."""

    source: BankSource
    ledger: EmbedderLedger

    def tell(self, document: str) -> SkillSource:
        """Return the source of a document followed by the bank's skills."""
        return DocumentAndBank(document, self.source)


@contextmanager
def injected_bank(config: RunConfig, store: RunStore) -> Iterator[InjectedBank | None]:
    """Open the bank from the start of a run, if any.

    At the end, the run's train episodes are added to the statistics in the bank's own file.
    """
    where = config.skill.bank
    if not where:
        yield None
        return
    kept = store.folder / KEPT_BANK
    bank = load_bank(kept) if kept.is_file() else read_bank(where)
    with ExitStack() as held:
        own = _own_file(where)
        bank_store = held.enter_context(BankStore.open(own)) if own else None
        embedder = held.enter_context(opened_embedder(config.bank.embedder))
        ledger = EmbedderLedger(embedder, store)
        held.callback(ledger.settle)
        if bank_store is not None:
            held.callback(count_use, store, bank_store, config.env.success_threshold)
        yield InjectedBank(bank_source(bank, config.bank, embedder, bank_store), ledger)


def _own_file(where: str) -> Path | None:
    """Return the file with a bank's statistics; exports and seed banks have none."""
    path = Path(where)
    is_file = not where.startswith(SEED) and path.suffix.lower() != ".json" and path.is_file()
    return path if is_file and not is_read_only_folder(path.parent) else None


@contextmanager
def opened_embedder(name: str) -> Iterator[Embedder]:
    """Make an embedder, and close its connections at the end."""
    with waiting(f"loading embedder {name}"):
        embedder = make_embedder(name)
    try:
        yield embedder
    finally:
        close = getattr(embedder, "close", None)
        if close is not None:
            close()


def keep_bank(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Copy the bank into the folder of a new run, and return its facts."""
    if not config.skill.bank:
        return {}
    bank = read_injected_bank(config.skill.bank)
    save_bank(bank, folder / KEPT_BANK)
    return {"bank": {"from": config.skill.bank, "version": bank.version, "digest": bank.digest}}


def injected_lines(store: RunStore) -> tuple[str, ...]:
    """Describe the bank of a run; empty without one."""
    made = [event.payload for event in store.events(MADE)]
    known = made[0].get("bank") if made else None
    if not known:
        return ()
    return (f"injected version {known['version']} of the bank {known['from']}",)


def check_bank(config: RunConfig) -> None:
    """Check the bank and the embedder of a run, before anything is written."""
    if config.skill.bank:
        # Changes of a bank's file were linted; an export may have any origin.
        refuse_unsafe(read_injected_bank(config.skill.bank).active, config.skill.bank)
        with opened_embedder(config.bank.embedder):
            pass


def refuse_bank(config: RunConfig) -> None:
    """Refuse a bank for an adapter, which gets one document for all tasks."""
    if config.skill.bank:
        raise ConfigError(
            f"skill.bank tells each task its own skills, and the EnvAdapter {config.env.name!r} is "
            "handed one document for all; leave skill.bank out, or export the bank "
            "(`skillwright bank export`) and begin with that as skill.init"
        )


# The store next to a bank with its episodes and calls, so that nothing is paid for twice.


def work_folder(bank: Path) -> Path:
    """Return the folder of the store next to a bank's file."""
    return bank.with_name(f"{bank.stem}.work")


@contextmanager
def bank_work(bank: Path, secrets: Sequence[str] = ()) -> Iterator[RunStore]:
    """Open the store next to a bank, for one process at a time.

    The folder ``bank.work`` next to ``bank.sqlite`` has a store like a run's, from which a repeated
    command reuses episodes and answers.
    """
    folder = work_folder(bank)
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BankError(
                f"{str(folder)!r}, where what is played for the bank is kept, cannot be made: "
                f"{error.strerror}. Copy the bank to a folder of your own and name the copy"
            ) from error
        held.enter_context(_working_on(bank))
        store = RunStore.open(folder / STORE_NAME, redactor=Redactor(list(secrets)))
        yield held.enter_context(store)


@contextmanager
def changed_at_once(bank: Path) -> Iterator[BankStore]:
    """Open a bank for a change in one transaction; other processes that change it wait."""
    with BankStore.open(bank) as store, store.together():
        if not work_folder(bank).is_dir():
            yield store
            return
        with _working_on(bank):
            yield store


@contextmanager
def _working_on(bank: Path) -> Iterator[None]:
    """Hold the lock for playing episodes for a bank."""
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    path = work_folder(bank) / LOCK_NAME
    try:
        lock = RunLock(path, started_at)
    except RunBusy as error:
        raise BankError(
            f"{str(bank)!r} is being worked on by {holder_of(path)}. Wait for it or end it, and "
            "try again"
        ) from error
    except RunError as error:
        raise BankError(
            f"{str(work_folder(bank))!r}, which belongs to the bank, cannot be written. Copy both "
            f"to a folder of your own and name the copy ({error})"
        ) from error
    try:
        yield
    finally:
        lock.release()


def has_work(bank: Path) -> bool:
    """Tell whether a bank has such a store."""
    return (work_folder(bank) / STORE_NAME).is_file()


@contextmanager
def look_at_work(bank: Path) -> Iterator[RunStore]:
    """Open the store next to a bank for reading."""
    with RunStore.open(work_folder(bank) / STORE_NAME, read_only=True) as store:
        yield store

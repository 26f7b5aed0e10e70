"""What was played and asked for a bank, kept beside it, so that nothing is paid for twice."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from skillwright.bank import BankError, BankStore
from skillwright.core import RunError
from skillwright.runs import Redactor, RunStore
from skillwright.runs.folder import LOCK_NAME, STORE_NAME
from skillwright.runs.lock import RunBusy, RunLock, holder_of


def work_folder(bank: Path) -> Path:
    """Return the folder that belongs to a bank's file."""
    return bank.with_name(f"{bank.stem}.work")


@contextmanager
def bank_work(bank: Path, secrets: Sequence[str] = ()) -> Iterator[RunStore]:
    """Open the store beside a bank, for one process at a time.

    The file ``bank.sqlite`` has a folder ``bank.work`` with a store like a run's. A command that
    was stopped is simply given again: what was played or answered then is taken from there.
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
    """Open a bank for a change that is decided from what it holds; all of it is one transaction.

    Other processes that change it wait. A command that plays for it does not: what such a command
    decides holds for the bank that it began with.
    """
    with BankStore.open(bank) as store, store.together():
        if not work_folder(bank).is_dir():
            yield store
            return
        with _working_on(bank):
            yield store


@contextmanager
def _working_on(bank: Path) -> Iterator[None]:
    """Hold the lock of whoever plays for a bank."""
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
    """Tell whether something was played or asked for a bank."""
    return (work_folder(bank) / STORE_NAME).is_file()


@contextmanager
def look_at_work(bank: Path) -> Iterator[RunStore]:
    """Open the store beside a bank only to read it."""
    with RunStore.open(work_folder(bank) / STORE_NAME, read_only=True) as store:
        yield store

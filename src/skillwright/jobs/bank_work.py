"""What was played and asked for a bank, kept beside it, so that nothing is paid for twice.

The file ``bank.sqlite`` has a folder ``bank.work`` with a store like a run's. A command that was
stopped is simply given again: what was played or answered then is taken from there.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from skillwright.bank import BankError
from skillwright.core import RunError
from skillwright.runs import Redactor, RunStore
from skillwright.runs.folder import LOCK_NAME, STORE_NAME
from skillwright.runs.lock import RunLock

BUSY = "is being worked on by another process. Wait for it or end it, and try again"


def work_folder(bank: Path) -> Path:
    """Return the folder that belongs to a bank's file."""
    return bank.with_name(f"{bank.stem}.work")


@contextmanager
def bank_work(bank: Path, secrets: Sequence[str] = ()) -> Iterator[RunStore]:
    """Open the store beside a bank, for one process at a time.

    Args:
        bank: The bank's file.
        secrets: Keys that nothing which is written may hold.

    Raises:
        BankError: Another process works on it, or the folder cannot be made.
    """
    folder = work_folder(bank)
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BankError(f"{str(folder)!r} cannot be made: {error.strerror}") from error
        try:
            lock = RunLock(folder / LOCK_NAME, datetime.now(UTC).isoformat(timespec="seconds"))
        except RunError as error:
            raise BankError(f"{str(bank)!r} {BUSY} ({error})") from error
        held.callback(lock.release)
        store = RunStore.open(folder / STORE_NAME, redactor=Redactor(list(secrets)))
        yield held.enter_context(store)


def has_work(bank: Path) -> bool:
    """Tell whether something was played or asked for a bank."""
    return (work_folder(bank) / STORE_NAME).is_file()


@contextmanager
def look_at_work(bank: Path) -> Iterator[RunStore]:
    """Open the store beside a bank only to read it.

    Raises:
        RunError: There is none, or it is damaged.
    """
    with RunStore.open(work_folder(bank) / STORE_NAME, read_only=True) as store:
        yield store

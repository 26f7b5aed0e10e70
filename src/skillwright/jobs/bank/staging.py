"""Write adopted skills into a client's folder, atomically and reversibly.

A folder and a bank cannot change in one transaction. So the old and the new content of the folder
are first stored durably next to the bank (a write-ahead log), then the folder is changed, then the
change is marked as done. After a killed command, the next one completes the stored change.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillwright.bank import Bank, BankStore, SkillFolder
from skillwright.bank.formats.agent_skills import check_name, old_files, put_files
from skillwright.core import DataError
from skillwright.core.jsonio import JsonRecord, digest
from skillwright.core.skill_file import SKILL_FILE
from skillwright.runs import RunStore

STAGING = "skill_staging"
STAGED = "skill_staged"
"""The events before and after a folder changes."""


@dataclass(frozen=True, slots=True)
class Staging(JsonRecord):
    """A change of a folder of skills.

    Attributes:
        number: From 1, in the store.
        place: Absolute path of the folder with folders of skills.
        before: Its files by path, as hexadecimal UTF-8, which redaction leaves unchanged; ``None``
            if there was no folder.
        after: The files after the change.
        made: Parent folders that were created, the uppermost first.
        version: The bank's version from which it was made.
        earlier: The bank's version of the previous adoption.
        skills: Digest of the active skills, or "".
        takes_back: Number of the change that it undoes, or 0.
    """

    number: int
    place: str
    name: str
    before: dict[str, str] | None
    after: dict[str, str] | None
    made: tuple[str, ...]
    version: int
    earlier: int
    skills: str
    takes_back: int = 0


def skills_digest(bank: Bank) -> str:
    """Return a digest of the contents of a bank's active skills; "" without any."""
    said = sorted(bank.content_digests[one.id] for one in bank.active)
    return digest(said) if said else ""


def history(store: RunStore) -> list[Staging]:
    """List the changes of folders, in order; the last one may be unfinished."""
    return [Staging.from_dict(event.payload) for event in store.events(STAGING)]


def in_effect(store: RunStore) -> list[Staging]:
    """List the adoptions that were not undone, in order."""
    changes = history(store)
    taken = {one.takes_back for one in changes}
    return [one for one in changes if not one.takes_back and one.number not in taken]


class Stager:
    """Writes folders of skills; each change is logged before and after.

    Args:
        store: The store next to the bank, locked by this process.
        bank: The bank.
        earlier: The bank's version before the adoption.
    """

    def __init__(self, store: RunStore, bank: BankStore, earlier: int = 0) -> None:
        self._store, self._bank, self._earlier = store, bank, earlier

    def write(self, folder: SkillFolder, place: Path) -> Path:
        """Write a folder of skills; a logged `write_agent_skills`.

        Raises:
            DataError: A folder of this name is not ours, or was changed.
        """
        place = place.resolve()
        bank = self._bank.load()
        change = Staging(
            number=len(history(self._store)) + 1,
            place=str(place),
            name=check_name(folder.name),
            before=_written(old_files(place / folder.name)),
            after=_written(folder.files),
            made=_missing(place),
            version=bank.version,
            earlier=self._earlier,
            skills=skills_digest(bank),
        )
        self._begin(change)
        self.finish()
        return place / folder.name

    def take_back(self, reason: str) -> Staging:
        """Undo the latest adoption: restore the folder's files and the bank's active skills.

        Raises:
            DataError: There is none, or the folder was changed since.
        """
        adopted = in_effect(self._store)
        if not adopted:
            raise DataError("nothing that was adopted is in effect, so nothing can be taken back")
        last = adopted[-1]
        target = Path(last.place) / last.name
        if _written(old_files(target)) not in (last.after, None):
            raise DataError(
                f"{str(target)!r} holds another export than the one that was staged. Move it away, "
                "and take back again"
            )
        earlier = adopted[-2].skills if len(adopted) > 1 else ""
        change = Staging(
            number=len(history(self._store)) + 1,
            place=last.place,
            name=last.name,
            before=last.after,
            after=last.before,
            made=last.made,
            version=last.earlier,
            earlier=last.version,
            skills=earlier,
            takes_back=last.number,
        )
        self._begin(change)
        self.finish(reason)
        return change

    def finish(self, reason: str = "taken back") -> Staging | None:
        """Complete a logged change that is not marked as done; return it, or ``None``."""
        changes = history(self._store)
        done = {event.payload["number"] for event in self._store.events(STAGED)}
        if not changes or changes[-1].number in done:
            return None
        change = changes[-1]
        if change.takes_back and skills_digest(self._bank.load()) != change.skills:
            self._bank.rollback(change.version, reason)
        _apply(change)
        with self._store.transaction(durable=True):
            self._store.append_event(STAGED, {"number": change.number})
        return change

    def _begin(self, change: Staging) -> None:
        with self._store.transaction(durable=True):
            self._store.append_event(STAGING, change.to_dict())


def _apply(change: Staging) -> None:
    """Apply a change to the folder; idempotent."""
    place, name = Path(change.place), change.name
    for left in place.glob(f".{name}.new-*"):  # left by a killed process
        shutil.rmtree(left)
    if change.after:
        put_files(_read(change.after), place, name)
        return
    target, old = place / name, place / f".{name}.old"
    if old.exists():
        shutil.rmtree(old)
    own = change.before or {}
    others = [
        one for one in target.rglob("*") if not one.is_dir() and _inside(one, target) not in own
    ]
    if others:
        _take_out(own, target)
    elif target.exists():
        target.rename(old)  # atomic, so that no client reads a part of it
        shutil.rmtree(old)
    for made in reversed(change.made):
        with suppress(OSError):
            Path(made).rmdir()
    if change.after is not None:
        target.mkdir(parents=True, exist_ok=True)  # it was an empty folder


def _take_out(own: Mapping[str, str], target: Path) -> None:
    """Remove our files from a folder with other files, SKILL.md first."""
    for path in sorted(own, key=lambda one: (one != SKILL_FILE, one)):
        (target / path).unlink(missing_ok=True)
    inner = {parent for path in own for parent in (target / path).parents}
    for folder in sorted(inner, key=lambda one: -len(one.parts)):
        if folder != target and folder.is_relative_to(target):
            with suppress(OSError):
                folder.rmdir()


def _inside(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _missing(place: Path) -> tuple[str, ...]:
    """Return the missing parent folders of a path, the uppermost first."""
    missing = [one for one in (place, *place.parents) if not one.exists()]
    return tuple(str(one) for one in reversed(missing))


def _written(files: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if files is None else {path: files[path].encode().hex() for path in sorted(files)}


def _read(files: Mapping[str, str]) -> dict[str, str]:
    return {path: bytes.fromhex(text).decode() for path, text in files.items()}

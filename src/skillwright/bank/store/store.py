"""All versions of a bank in one SQLite file, with the log of its changes.

Versions are only appended. Any number of processes may use a file; each change is one transaction
on the newest version, so two processes never create the same version or id.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from skillwright.bank.bank import (
    Bank,
    BankError,
    BankMoved,
    SkillStats,
    UnknownVersion,
    highest_numbers,
)
from skillwright.bank.changes import Change, ChangeReport, GrowthCaps, IsNear, apply, near_in_text
from skillwright.bank.lint.lint import refuse_unsafe
from skillwright.bank.store.tables import (
    BankFile,
    CountedEpisode,
    CountTable,
    LogEntry,
    LogEvent,
    Vector,
    VectorTable,
    WordingTable,
    entry_of,
    outcomes_json,
    proposed_json,
)
from skillwright.core import BankSkill, DataError, SkillStatus
from skillwright.core.clock import steady_time
from skillwright.core.jsonio import canonical, dumps
from skillwright.core.sqlite_file import BUSY_TIMEOUT_S

_FIELDS = ("name", "principle", "applicability", "category", "scope", "details")
_PARTS = ("failure_point", "flawed_reasoning", "corrective_action")


@dataclass(frozen=True, slots=True)
class Refinement:
    """A skill with a new wording.

    Attributes:
        fields: Differing fields: (before, after).
    """

    before: BankSkill
    after: BankSkill
    fields: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class BankDiff:
    """The differences between two versions of a bank.

    Attributes:
        before: The first version.
        after: The second version.
        added: Skills that only the second version has.
        refined: Skills whose wording differs.
        retired: Skills that only the second version retired.
        approved: Skills that changed from pending to active.
        restored: Skills that changed from retired, by a rollback.
        pending: Skills that changed from active to pending, by a rollback.
        removed: Skills that only the first version has, by a rollback.
    """

    before: int
    after: int
    added: tuple[BankSkill, ...] = ()
    refined: tuple[Refinement, ...] = ()
    retired: tuple[BankSkill, ...] = ()
    approved: tuple[BankSkill, ...] = ()
    restored: tuple[BankSkill, ...] = ()
    pending: tuple[BankSkill, ...] = ()
    removed: tuple[BankSkill, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether both versions give the same skills to agents."""
        return not any(getattr(self, one.name) for one in fields(self)[2:])


def difference(before: Bank, after: Bank) -> BankDiff:
    """Compare two versions of a bank; evidence and statistics are not compared."""
    retired = SkillStatus.RETIRED
    pairs = [(before.get(new.id), new) for new in after.skills if new.id in before]
    return BankDiff(
        before.version,
        after.version,
        added=tuple(new for new in after.skills if new.id not in before),
        refined=tuple(
            Refinement(old, new, fields) for old, new in pairs if (fields := _changed(old, new))
        ),
        retired=_turned(pairs, retired),
        approved=_turned(pairs, SkillStatus.ACTIVE, SkillStatus.PENDING),
        restored=tuple(new for old, new in pairs if old.status == retired != new.status),
        pending=_turned(pairs, SkillStatus.PENDING, SkillStatus.ACTIVE),
        removed=tuple(old for old in before.skills if old.id not in after),
    )


def _turned(
    pairs: list[tuple[BankSkill, BankSkill]], to: SkillStatus, source: SkillStatus | None = None
) -> tuple[BankSkill, ...]:
    return tuple(
        new
        for old, new in pairs
        if new.status == to and old.status != to and source in (None, old.status)
    )


def _changed(old: BankSkill, new: BankSkill) -> dict[str, tuple[str, str]]:
    one, other = _said(old), _said(new)
    return {key: (one[key], other[key]) for key in one if one[key] != other[key]}


def _said(skill: BankSkill) -> dict[str, str]:
    said = {key: getattr(skill, key) for key in _FIELDS}
    for key in _PARTS:
        said[key] = getattr(skill.counterfactual, key) if skill.counterfactual else ""
    return said


_VERSION = """
    SELECT digest, issued, (
        SELECT meta FROM versions AS earlier
        WHERE earlier.version <= versions.version AND meta IS NOT NULL
        ORDER BY earlier.version DESC LIMIT 1
    ) AS meta FROM versions WHERE version = ?
"""


class _Said(NamedTuple):
    """What the log stores of an event; the outcome of each change is JSON."""

    reason: str
    verdict: Mapping[str, Any] | None = None
    step: int | None = None
    outcomes: str = "[]"


class BankStore:
    """All versions of a bank.

    Args:
        file: The open file.
        clock: Returns the time, in seconds since 1970.
    """

    def __init__(self, file: BankFile, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._wordings = WordingTable(file)
        self._counts = CountTable(file)
        self._vectors = VectorTable(file)
        self._last = Bank()  # what was read last, for versions never change

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        clock: Callable[[], float] = steady_time,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> Self:
        """Open a bank's file; it is created if missing, and migrated if old.

        Args:
            path: The file.
            read_only: Change nothing; the file must exist.
            clock: Returns the time, in seconds since 1970.
            busy_timeout_s: How long to wait for another process that writes.

        Raises:
            BankError: The file is missing, not a bank, damaged, or written by a newer version.
        """
        return cls(BankFile(path, read_only=read_only, busy_timeout_s=busy_timeout_s), clock)

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._file.path

    @property
    def newest(self) -> int:
        """Number of the newest version; 0 if there is none."""
        return int(self._file.rows("SELECT coalesce(max(version), 0) FROM versions")[0][0])

    def versions(self) -> list[int]:
        """Return the numbers of all versions, ascending."""
        return [row[0] for row in self._file.rows("SELECT version FROM versions ORDER BY version")]

    def load(self, version: int | None = None) -> Bank:
        """Read the bank at a version.

        Args:
            version: Its number; ``None`` is the newest, and 0 the empty bank before the first.

        Raises:
            UnknownVersion: There is no such version; the message names the nearest ones.
            BankError: The file is damaged.
        """
        number = self.newest if version is None else version
        if number == 0:
            return Bank()
        if self._last.version == number:
            return self._last
        found = self._file.rows(_VERSION, (number,))
        if not found:
            raise self._unknown(number)
        stats = self._counts.as_of(number)
        try:
            skills, digests = self._wordings.as_of(number)
            issued, meta = json.loads(found[0]["issued"]), json.loads(found[0]["meta"])
        except (ValueError, DataError) as error:
            raise self._damaged(number, str(error)) from error
        bank = Bank(number, skills, stats, issued, meta)
        # Digests of ten thousand skills take a tenth of a second, so they are passed on.
        bank.__dict__["content_digests"] = digests
        if bank.digest != found[0]["digest"]:
            raise self._damaged(number, "its skills do not have the digest that was kept")
        self._last = bank
        return bank

    def commit(
        self,
        changes: Sequence[Change],
        *,
        reason: str,
        verdict: Mapping[str, Any] | None = None,
        step: int | None = None,
        caps: GrowthCaps | None = None,
        weakest: str | None = None,
        is_near: IsNear = near_in_text,
    ) -> Bank:
        """Apply changes to the newest version and store the next one.

        If every change is refused there is no new version; `log` has the outcome of each.

        Args:
            changes: The changes to apply.
            reason: Reason for the log.
            verdict: A gate's verdict, as JSON values.
            step: The training step or epoch.
            caps: Growth limits; ``None`` sets none.
            weakest: The category that may grow by `GrowthCaps.weakest_extra` more.
            is_near: Whether two skills of one kind, category and scope have the same meaning.

        Returns:
            The newest version now.

        Raises:
            BankError: The disk is full, or another process locks the file; nothing was written.
        """
        with self._file.transaction(durable=True):
            before = self.load()
            after, report = apply(before, changes, caps, weakest=weakest, is_near=is_near)
            event = LogEvent.UNCHANGED if after is before else LogEvent.CHANGED
            said = _Said(reason, verdict, step, outcomes_json(report))
            kept = self._keep(before, after, event, said)
        self._last = kept
        return kept

    def adopt(
        self,
        candidate: Bank,
        report: ChangeReport | None = None,
        *,
        reason: str,
        verdict: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> Bank:
        """Store a version that `apply` made of the newest one and a gate accepted.

        An empty store accepts any bank, such as an export or a seed bank; numbering continues from
        its version, and its statistics are the first.

        Raises:
            BankMoved: The candidate was made of another version than the newest.
            BankError: An active skill fails lint, the disk is full, or another process locks the
                file. Nothing was written.
        """
        with self._file.transaction(durable=True):
            before = self.load()
            self._refuse_unsafe(before, candidate)
            if before.version and candidate.version != before.version + 1:
                raise BankMoved(
                    f"{self._file.path}: the candidate was made of version "
                    f"{candidate.version - 1}, and the newest is {before.version}. Apply its "
                    "changes to the newest version and judge that one."
                )
            after = replace(
                candidate,
                version=max(candidate.version, 1),
                issued=highest_numbers((), before.highest, candidate.highest),
            )
            said = _Said(reason, verdict, step, outcomes_json(report or ChangeReport()))
            return self._keep(before, after, LogEvent.CHANGED, said)

    def reject(
        self,
        changes: Iterable[Change],
        *,
        reason: str,
        verdict: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Log changes that a gate rejected; the bank stays as it is."""
        with self._file.transaction(durable=True):
            newest = self.newest
            said = _Said(reason, verdict, step, proposed_json(changes))
            self._log(LogEvent.REJECTED, newest, newest, said)

    def rollback(self, version: int, reason: str) -> Bank:
        """Create a new version that equals an old one; ids are not reused.

        Statistics are kept: the episodes did happen.

        Raises:
            UnknownVersion: There is no such version; the message names the nearest ones.
        """
        with self._file.transaction(durable=True):
            before, target = self.load(), self.load(version)
            after = replace(
                target,
                version=before.version + 1,
                issued={**before.highest, **_highest_versions(before, target)},
            )
            return self._keep(before, after, LogEvent.ROLLED_BACK, _Said(reason))

    def together(self) -> AbstractContextManager[None]:
        """Commit all changes inside together, or none of them; durably."""
        return self._file.transaction(durable=True)

    def log(self) -> list[LogEntry]:
        """List the log, oldest first."""
        return [entry_of(row) for row in self._file.rows("SELECT * FROM log ORDER BY number")]

    def diff(self, before: int, after: int | None = None) -> BankDiff:
        """Compare two versions.

        Args:
            before: The first version; 0 is the empty bank.
            after: The second version; ``None`` is the newest.

        Raises:
            UnknownVersion: There is no such version; the message names the nearest ones.
        """
        return difference(self.load(before), self.load(after))

    def count(self, episodes: Iterable[CountedEpisode]) -> None:
        """Add finished episodes to the statistics of the next version; each episode counts once."""
        with self._file.transaction():
            self._counts.add(episodes)

    def totals(self) -> dict[str, SkillStats]:
        """Return the current statistics, by id."""
        return self._counts.totals()

    def vectors(self, embedder_id: str) -> dict[str, Vector]:
        """Return an embedder's vectors by content digest: float32, shape ``[d]``."""
        return self._vectors.of(embedder_id)

    def keep_vectors(self, embedder_id: str, vectors: Mapping[str, Vector]) -> None:
        """Store an embedder's vectors by content digest; existing ones stay."""
        with self._file.transaction():
            self._vectors.keep(embedder_id, vectors)

    def _refuse_unsafe(self, before: Bank, candidate: Bank) -> None:
        """Refuse active skills that fail lint and were not active with this content before."""
        known = {before.content_digests[skill.id] for skill in before.active}
        new = [one for one in candidate.active if candidate.content_digests[one.id] not in known]
        refuse_unsafe(new, str(self._file.path))

    def _keep(self, before: Bank, after: Bank, event: LogEvent, said: _Said) -> Bank:
        if after is not before:
            is_new = not before.version or after.meta != before.meta
            meta = dumps(dict(after.meta)) if is_new else None
            self._file.rows(
                "INSERT INTO versions VALUES (?, ?, ?, ?)",
                (after.version, after.digest, canonical(dict(after.issued)), meta),
            )
            self._wordings.keep(before, after)
            if not before.version:
                self._counts.begin(after.stats)
            self._counts.freeze(after.version)
            after = _with_stats(after, self._counts.as_of(after.version))
        self._log(event, before.version, after.version, said)
        return after

    def _log(self, event: LogEvent, before: int, version: int, said: _Said) -> None:
        reason, verdict, step, outcomes = said
        written = None if verdict is None else dumps(dict(verdict))
        self._file.rows(
            "INSERT INTO log (event, before, version, reason, verdict, step, outcomes, time)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (str(event), before, version, reason, written, step, outcomes, self._clock()),
        )

    def _unknown(self, version: int) -> UnknownVersion:
        known = sorted(self.versions(), key=lambda one: (abs(one - version), one))
        near = " and ".join(str(one) for one in sorted(known[:2])) or "none, for it is empty"
        return UnknownVersion(
            f"{self._file.path} has no version {version}. The nearest that it has: {near}. "
            "`log` lists them all."
        )

    def _damaged(self, version: int, why: str) -> BankError:
        return BankError(
            f"{self._file.path}: version {version} is damaged ({why}). Restore the file from a "
            "copy, or import the bank's last export into a new file."
        )


def _with_stats(bank: Bank, stats: Mapping[str, SkillStats]) -> Bank:
    counted = replace(bank, stats=stats)
    counted.__dict__["content_digests"] = bank.content_digests
    return counted


def _highest_versions(before: Bank, target: Bank) -> dict[str, int]:
    """Return, by id, the highest version of skills that a rollback undoes, so it is not reused."""
    return {
        skill.id: max(skill.version, before.issued.get(skill.id, 0))
        for skill in before.skills
        if skill.id not in target or target.get(skill.id).version < skill.version
    }

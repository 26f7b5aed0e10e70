"""What happened to a bank, and why: its log, as JSON and as records."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from skillwright.bank.bank import SkillStats
from skillwright.bank.changes import Add, Change, ChangeReport, Decision, Outcome, Refine
from skillwright.bank.formats.items import item_of
from skillwright.core.jsonio import dumps


class LogEvent(StrEnum):
    """What an entry of the log is about."""

    CHANGED = "changed"
    """A new version was made."""
    UNCHANGED = "unchanged"
    """Every change of an update was refused, so there is no new version."""
    REJECTED = "rejected"
    """A candidate did not pass the gate."""
    ROLLED_BACK = "rolled_back"
    """A new version that equals an old one was made."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Something that happened to a bank.

    Attributes:
        number: From 1, rising.
        event: What.
        before: The version before it.
        version: The version after it.
        reason: Why, in the words of who did it.
        verdict: What a gate said, as JSON values; ``None`` where none was asked.
        step: The training step or epoch, where there was one.
        outcomes: What became of each change: objects with ``op``, the fields of the change,
            ``decision``, ``skill`` (its id) and ``because``.
        time: Seconds since 1970, UTC; for people, never for decisions.
    """

    number: int
    event: LogEvent
    before: int
    version: int
    reason: str
    verdict: Mapping[str, Any] | None
    step: int | None
    outcomes: tuple[Mapping[str, Any], ...]
    time: float

    def with_decision(self, decision: Decision) -> tuple[Mapping[str, Any], ...]:
        """Return the outcomes of one decision."""
        return tuple(one for one in self.outcomes if one["decision"] == decision)


def entry_of(row: sqlite3.Row) -> LogEntry:
    """Read an entry from its row."""
    return LogEntry(
        row["number"],
        LogEvent(row["event"]),
        row["before"],
        row["version"],
        row["reason"],
        None if row["verdict"] is None else json.loads(row["verdict"]),
        row["step"],
        tuple(json.loads(row["outcomes"])),
        row["time"],
    )


def outcomes_json(report: ChangeReport) -> str:
    """Write what became of each change."""
    return dumps([_outcome(one) for one in report.outcomes])


def proposed_json(changes: Iterable[Change]) -> str:
    """Write changes that were not made."""
    outcomes = (Outcome(one, Decision.REFUSED, "", "the candidate was rejected") for one in changes)
    return outcomes_json(ChangeReport(tuple(outcomes)))


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        **_change(outcome.change),
        "decision": str(outcome.decision),
        "skill": outcome.id,
        "because": outcome.reason,
    }


def _change(change: Change) -> dict[str, Any]:
    op = type(change).__name__.lower()
    if isinstance(change, Add):
        item = item_of(change.draft, SkillStats())
        return {"op": op, "draft": {key: item[key] for key in item if key not in ("id", "stats")}}
    said = {field.name: getattr(change, field.name) for field in fields(change)}
    if isinstance(change, Refine):
        lesson, evidence = change.counterfactual, change.provenance
        said["counterfactual"] = lesson and {
            field.name: getattr(lesson, field.name) for field in fields(lesson)
        }
        said["provenance"] = evidence and {
            field.name: getattr(evidence, field.name) for field in fields(evidence)
        }
    return {"op": op, **{key: value for key, value in said.items() if value is not None}}

"""Stored skill versions, patches, edits and verdicts.

Each row is named by its step and id, so that recording a step again, after a resume or when more
is known of an edit, updates what is there.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skillwright.core import Edit, Failure, RunError, skill_hash
from skillwright.runs.archive import (
    RunTable,
    digest_column,
    failure_columns,
    read_digest,
    read_failure,
    to_json,
)

Stage = Literal["proposed", "merged", "selected"]
Evidence = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """A version of the skill document; versions are never changed or removed.

    Attributes:
        version: From 0, which is the initial skill.
        parent: Version that it was derived from, or ``None``.
        origin: Stage that wrote it (``initial_skill``, ``step_0003``).
        created_at: Seconds since 1970, UTC.
    """

    version: int
    hash: str
    parent: int | None
    origin: str
    step: int | None
    created_at: float


@dataclass(frozen=True, slots=True)
class PatchRecord:
    """A patch of an analyst or a merge.

    Attributes:
        source_type: ``failure`` or ``success``; ``""`` for both.
        inputs: Task ids read by an analyst, or edit ids read by a merge.
        level: 0 for an analyst, above for the levels of the merge tree.
        details: Further facts (failure kinds, notes, cuts), as JSON values.
        prompt_digest: The prompt that was answered, or ``""``.
    """

    step: int
    id: str
    source_type: str
    inputs: Sequence[str]
    edits: Sequence[str] = ()
    level: int = 0
    reasoning: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    prompt_digest: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class EditRecord:
    """An edit with its origin and outcome.

    Attributes:
        edit: The edit, with support, source and merge level.
        parents: Ids of the edits that it was merged from.
        evidence: The trajectories behind it: (task id, turns), no turns meaning all.
        prompt_digest: The prompt that it answers, or ``""``.
        status: Outcome in the document, or ``""`` if not tried.
        lines: Its first and last line in the candidate, from 1, or ``None``.
        verdict: The gate's decision on its step; filled in on reading.
    """

    step: int
    id: str
    edit: Edit
    stage: Stage = "proposed"
    parents: Sequence[str] = ()
    evidence: Sequence[Evidence] = ()
    prompt_digest: str = ""
    status: str = ""
    lines: tuple[int, int] | None = None
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """A gate's decision on a candidate.

    Attributes:
        origin: What was judged: ``step``, or another stage that makes candidates.
        body: The verdict as a JSON object. ``decision`` and ``reason`` are needed; ``effect``,
            ``interval``, ``p_value`` and ``rollouts`` can be queried where they are there.
    """

    step: int
    body: Mapping[str, Any]
    candidate: str = ""
    origin: str = "step"


class LearningTable(RunTable):
    """Skills, patches, edits and verdicts of a run."""

    def add_skill_version(
        self, text: str, *, parent: int | None = None, origin: str = "", step: int | None = None
    ) -> int:
        """Add a version of the skill and return its number; the first is 0."""
        with self._database.transaction(durable=True):
            newest = self._database.rows("SELECT coalesce(max(version), -1) FROM skills")
            version = int(newest[0][0]) + 1
            self._database.insert(
                "skills",
                {
                    "version": version,
                    "text": self._archive.put_text(text),
                    "hash": skill_hash(text),
                    "parent": parent,
                    "origin": origin,
                    "step": step,
                    "created_at": self._clock(),
                },
            )
        return version

    def skill(self, version: int) -> str:
        """Return the text of a skill version.

        Raises:
            RunError: There is no such version.
        """
        row = self._database.row("SELECT text FROM skills WHERE version = ?", (version,))
        if row is None:
            newest = self._database.rows("SELECT max(version) FROM skills")[0][0]
            raise RunError(
                f"{str(self._database.path)!r} has no skill version {version}; "
                f"{'it has none yet' if newest is None else f'the newest is {newest}'}"
            )
        return self._archive.text(row["text"])

    def skills(self) -> list[SkillVersion]:
        """List the skill versions, oldest first."""
        rows = self._database.rows(
            "SELECT version, hash, parent, origin, step, created_at FROM skills ORDER BY version"
        )
        return [SkillVersion(*row) for row in rows]

    def record_patches(self, patches: Iterable[PatchRecord]) -> None:
        """Record patches; those known by step and id are updated."""
        with self._database.transaction():
            for patch in patches:
                self._database.insert(
                    "patches",
                    {
                        "step": patch.step,
                        "id": patch.id,
                        "level": patch.level,
                        "source_type": patch.source_type,
                        "inputs": to_json(list(patch.inputs)),
                        "edits": to_json(list(patch.edits)),
                        "reasoning": self._archive.put_text(patch.reasoning),
                        "details": self._archive.put_text(to_json(dict(patch.details))),
                        "prompt_digest": digest_column(patch.prompt_digest),
                        **failure_columns(patch.failure, self._archive.redactor),
                    },
                    replace=True,
                )

    def patches(self, step: int | None = None) -> list[PatchRecord]:
        """List patches, of one step or all, by step, level and id."""
        rows = self._database.rows(*_of_step("SELECT * FROM patches", step, "step, level, id"))
        texts = self._archive.texts(
            text_id for row in rows for text_id in (row["reasoning"], row["details"])
        )
        return [
            PatchRecord(
                step=row["step"],
                id=row["id"],
                source_type=row["source_type"],
                inputs=tuple(json.loads(row["inputs"])),
                edits=tuple(json.loads(row["edits"])),
                level=row["level"],
                reasoning=texts[row["reasoning"]],
                details=json.loads(texts[row["details"]]),
                prompt_digest=read_digest(row["prompt_digest"]),
                failure=read_failure(row),
            )
            for row in rows
        ]

    def record_edits(self, edits: Iterable[EditRecord]) -> None:
        """Record edits; those known by step and id are updated."""
        with self._database.transaction():
            for record in edits:
                edit = record.edit
                first, last = record.lines or (None, None)
                self._database.insert(
                    "edits",
                    {
                        "step": record.step,
                        "id": record.id,
                        "stage": record.stage,
                        "op": edit.op,
                        "target": self._archive.put_text(edit.target),
                        "content": self._archive.put_text(edit.content),
                        "source_type": edit.source_type,
                        "support": edit.support_count,
                        "merge_level": edit.merge_level,
                        "update_origin": edit.update_origin,
                        "update_target": edit.update_target,
                        "parents": to_json(list(record.parents)),
                        "evidence": to_json([list(item) for item in record.evidence]),
                        "prompt_digest": digest_column(record.prompt_digest),
                        "status": record.status,
                        "first_line": first,
                        "last_line": last,
                    },
                    replace=True,
                )

    def edits(self, step: int | None = None) -> list[EditRecord]:
        """List edits, of one step or all, each with the gate's decision on its step."""
        query = """SELECT e.*, coalesce(v.decision, '') AS verdict FROM edits e
            LEFT JOIN verdicts v ON v.step = e.step AND v.origin = 'step'"""
        rows = self._database.rows(*_of_step(query, step, "e.step, e.id", column="e.step"))
        texts = self._archive.texts(
            text_id for row in rows for text_id in (row["target"], row["content"])
        )
        return [_edit_record(row, texts) for row in rows]

    def record_verdict(self, verdict: VerdictRecord) -> None:
        """Record a gate's decision durably."""
        body = self._archive.redactor.facts(dict(verdict.body))
        low, high = body.get("interval") or (None, None)
        with self._database.transaction(durable=True):
            self._database.insert(
                "verdicts",
                {
                    "step": verdict.step,
                    "origin": verdict.origin,
                    "candidate": verdict.candidate,
                    "decision": body["decision"],
                    "effect": body.get("effect"),
                    "low": low,
                    "high": high,
                    "p_value": body.get("p_value"),
                    "rollouts": body.get("rollouts", 0),
                    "reason": body["reason"],
                    "body": to_json(body),
                    "decided_at": self._clock(),
                },
                replace=True,
            )

    def verdicts(self) -> list[VerdictRecord]:
        """List the gate's decisions by step and origin."""
        rows = self._database.rows(
            "SELECT step, origin, candidate, body FROM verdicts ORDER BY step, origin"
        )
        return [
            VerdictRecord(row["step"], json.loads(row["body"]), row["candidate"], row["origin"])
            for row in rows
        ]


def _of_step(
    query: str, step: int | None, order: str, column: str = "step"
) -> tuple[str, tuple[int, ...]]:
    if step is None:
        return f"{query} ORDER BY {order}", ()
    return f"{query} WHERE {column} = ? ORDER BY {order}", (step,)


def _edit_record(row: sqlite3.Row, texts: Mapping[int, str]) -> EditRecord:
    lines = None if row["first_line"] is None else (row["first_line"], row["last_line"])
    return EditRecord(
        step=row["step"],
        id=row["id"],
        edit=Edit(
            op=row["op"],
            content=texts[row["content"]],
            target=texts[row["target"]],
            support_count=row["support"],
            source_type=row["source_type"],
            merge_level=row["merge_level"],
            update_origin=row["update_origin"],
            update_target=row["update_target"],
        ),
        stage=row["stage"],
        parents=tuple(json.loads(row["parents"])),
        evidence=tuple((task, tuple(turns)) for task, turns in json.loads(row["evidence"])),
        prompt_digest=read_digest(row["prompt_digest"]),
        status=row["status"],
        lines=lines,
        verdict=row["verdict"],
    )

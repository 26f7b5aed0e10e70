"""Read the raw patches of an adapter's own analysts.

Source: SkillOpt (microsoft/SkillOpt), the raw patches of its adapters. It drops invalid patches
silently and trusts an analyst's support counts.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillwright.core import (
    ContractError,
    Edit,
    FailureSummaryEntry,
    Patch,
    RawPatch,
    ReflectRequest,
)
from skillwright.core.edits import SourceType
from skillwright.core.fence import attribute
from skillwright.core.jsonio import dumps, encode_fields, write_text
from skillwright.rollout.transcript import Transcript, Transcripts, read_rows
from skillwright.textopt.context import ANY_REWARD, StepContext, StepSettings, read_notes
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault, Evidence, Proposal, UpdateMode, item_form
from skillwright.textopt.reflect import AnalystPatch, Minibatch, Reflection, ReplyReader, reflect

_ID_KEYS = ("ids", "trajectories", "task_ids")


def read_raw_patches(
    payloads: Sequence[object],
    *,
    name: str,
    transcripts: Transcripts,
    settings: StepSettings,
    context: StepContext,
) -> Reflection:
    """Read raw patches; drop unusable ones with a note.

    A raw patch is ``{"patch": {"edits": [...]}, "source_type", "batch_size", "failure_summary"}``,
    or the inner object alone; the key of its items depends on the update mode. Edits pass the
    same checks as those of our analysts, and are not cut to the step's budget.

    An edit's evidence is what it cites; else the trajectories that its patch names (``ids``,
    ``trajectories`` or ``task_ids``); else its whole side: then ``batch_size`` is its support count
    until it is merged.

    Args:
        payloads: Return value of the adapter's ``reflect``; ``None`` is no patch.
        name: Name of the micro-batch in ids (``s3``); patch 0 is ``s3.a0``, its first edit
            ``s3.a0.e1``.
        transcripts: The episodes that the adapter's analysts could read.
        settings: The update mode, the success threshold and the limits on edits.
        context: The skill that the edits are for.
    """
    reader = _PatchReader(transcripts, settings, context)
    for number, payload in enumerate(payloads):
        reader.read(f"{name}.a{number}", payload)
    return Reflection(tuple(reader.patches), tuple(reader.notes))


class _PatchReader:
    """Reads the raw patches of one micro-batch."""

    def __init__(
        self, transcripts: Transcripts, settings: StepSettings, context: StepContext
    ) -> None:
        self.patches: list[AnalystPatch] = []
        self.notes: list[str] = []
        self._rows = transcripts.rows
        self._settings = settings
        self._context = context

    def read(self, call: str, payload: object) -> None:
        """Read one raw patch, or note why it is invalid."""
        raw = _plain(payload)
        if not isinstance(raw, Mapping):
            self.notes.append(f"{call} is dropped: it is a {type(payload).__name__}, not an object")
            return
        inner = _plain(raw.get("patch") or raw)
        if not isinstance(inner, Mapping):
            kind = type(inner).__name__
            self.notes.append(f"{call} is dropped: its patch is a {kind}, not an object")
            return
        items = inner.get(self._settings.update_mode.payload_key)
        if not isinstance(items, list | tuple):
            self.notes.append(f"{call} is dropped: {self._what_is_missing(inner)}")
            return
        notes: list[str] = []
        source_type = _source_type(raw, notes)
        self.patches.append(self._patch(call, raw, inner, source_type, notes))

    def _patch(
        self,
        call: str,
        raw: Mapping[str, Any],
        inner: Mapping[str, Any],
        source_type: SourceType,
        notes: list[str],
    ) -> AnalystPatch:
        mode = self._settings.update_mode
        items = [_plain(item) for item in inner[mode.payload_key]]
        named = self._named(raw)
        rows = named or [row for row in self._rows if self._side(row) == source_type]
        hint = None if named else _hint(raw, notes)
        reader = ReplyReader(call, Minibatch(source_type, 0, tuple(rows)), "")
        found = item_form(mode).read(items, self._context.skill, self._settings.limits)
        proposals = []
        for number, edit, item in found.edits:
            if item.get("evidence"):
                proposal = reader.proposal(number, edit, item)
            else:
                evidence = tuple(Evidence(row.id) for row in rows)
                edit.support_count = len(evidence) if hint is None else hint
                proposal = Proposal(f"{call}.e{number}", edit, source_type, evidence)
            proposals.append(_from_its_side(proposal, item))
        summary = raw.get("failure_summary")
        patterns = raw.get("success_patterns")
        takes_notes = self._settings.addendum(source_type)
        return AnalystPatch(
            call=call,
            source_type=source_type,
            trajectories=tuple(row.id for row in rows),
            proposals=tuple(proposals),
            reasoning=str(inner.get("reasoning") or raw.get("reasoning") or ""),
            failures=tuple(reader.failures(summary if isinstance(summary, list) else [])),
            success_patterns=tuple(
                text
                for text in (patterns if isinstance(patterns, list) else [])
                if isinstance(text, str)
            ),
            execution_notes=tuple(read_notes(raw.get("appendix_notes")) if takes_notes else ()),
            notes=(*notes, *found.notes, *reader.notes),
            dropped=len(items) - len(found.edits),
            repairs=tuple(found.repairs),
        )

    def _named(self, raw: Mapping[str, Any]) -> list[Transcript]:
        """Return the trajectories that a patch names, in rollout order."""
        ids: set[str] = set()
        for key in _ID_KEYS:
            listed = raw.get(key)
            if isinstance(listed, list | tuple):
                ids.update(attribute(str(one)) for one in listed)
        return [row for row in self._rows if row.id in ids or attribute(row.task_id) in ids]

    def _side(self, row: Transcript) -> SourceType:
        return "success" if row.is_success(self._settings.success_threshold) else "failure"

    def _what_is_missing(self, inner: Mapping[str, Any]) -> str:
        key = self._settings.update_mode.payload_key
        others = [mode for mode in UpdateMode if mode.payload_key in inner]
        if key in inner or not others:
            return f"it has no list of {key!r}"
        return (
            f"it has {others[0].payload_key!r}, and this run reads {key!r} "
            f"(skill_update_mode is {self._settings.update_mode.value})"
        )


def _source_type(raw: Mapping[str, Any], notes: list[str]) -> SourceType:
    match raw.get("source_type"):
        case "failure":
            return "failure"
        case "success":
            return "success"
        case None:
            notes.append("it does not say its source_type; failure is assumed")
        case other:
            notes.append(f"source_type {str(other)[:40]!r} is none; failure is assumed")
    return "failure"


def _from_its_side(proposal: Proposal, item: Mapping[str, Any]) -> Proposal:
    """Apply an edit's own source type; the default is its patch's."""
    own = item.get("source_type")
    source_type: SourceType = proposal.source_type
    if own == "failure" or own == "success":
        source_type = own
    proposal.edit.source_type = source_type
    return replace(proposal, source_type=source_type)


def _hint(raw: Mapping[str, Any], notes: list[str]) -> int:
    """Return the support count of an edit without named evidence."""
    size = raw.get("batch_size")
    try:
        return max(int(size or 0), 1)
    except (TypeError, ValueError, OverflowError):
        notes.append(f"batch_size {str(size)[:40]!r} is no number; 1 is assumed")
        return 1


def _plain(value: object) -> object:
    """Convert the documented types to plain objects."""
    return value.to_dict() if isinstance(value, RawPatch | Patch | Edit) else value


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TextReflector:
    """A core `Reflector` over an `Optimizer`.

    Attributes:
        settings: Settings that a request does not have. Every reward above zero is a success, as
            adapters expect.
        loop: The event loop of the optimizer's model, for calls from the adapter's thread; ``None``
            runs a new loop for each request.
    """

    optimizer: Optimizer
    settings: StepSettings = field(
        default_factory=lambda: StepSettings(success_threshold=ANY_REWARD)
    )
    loop: asyncio.AbstractEventLoop | None = None

    def reflect(self, request: ReflectRequest) -> list[dict[str, Any] | None]:
        """Return raw patches in the order of the minibatches; ``None`` for one that failed.

        Unreadable rows and unusable answers are logged as warnings.

        Raises:
            ContractError: It was called on the event loop that it must wait for.
            EngineDown: No analyst could be reached.
        """
        read = read_rows(request.results, request.prediction_dir)
        for row in read.skipped:
            logger.warning("row %r is not analyzed: %s", row.id, row.reason)
        reflection = self._wait(
            reflect(
                replace(
                    self.optimizer,
                    env_prompts={**self.optimizer.env_prompts, **dict(request.prompts)},
                ),
                StepSettings.of(
                    self.settings,
                    minibatch_size=request.minibatch_size,
                    failure_only=request.failure_only,
                    analyst_workers=request.analyst_workers,
                ),
                StepContext(
                    name="adapter",
                    skill=request.skill,
                    budget=request.edit_budget,
                    seed=request.seed,
                    earlier_steps=request.step_buffer_context,
                    meta_skill=request.meta_skill_context,
                ),
                read.rows,
            )
        )
        reflection.refuse_dead_optimizer()
        for fault in reflection.faults:
            logger.warning("analyst %s gave nothing usable: %s", fault.call, fault.failure.message)
        key = self.settings.update_mode.payload_key
        if request.patches_dir is not None:
            _keep(reflection, request.patches_dir, key)
        return [_payload(outcome, key) for outcome in reflection.outcomes]

    def _wait(self, coroutine: Coroutine[Any, Any, Reflection]) -> Reflection:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self.loop is None:
                return asyncio.run(coroutine)
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
        coroutine.close()
        raise ContractError(
            "reflect() blocks, and was called on an event loop's own thread; "
            "call it from a worker thread (asyncio.to_thread)"
        )


def _keep(reflection: Reflection, folder: Path, key: str) -> None:
    """Write each minibatch's outcome, failed calls included, to a file for people.

    The files are never read back: a file of an earlier call may have the same number.
    """
    for outcome in reflection.outcomes:
        name = outcome.call.rpartition(".")[2]
        kind = "fail" if name.startswith("f") else "succ"
        body = {**encode_fields(outcome), **(_payload(outcome, key) or {})}
        write_text(folder / f"minibatch_{kind}_{int(name[1:]):03d}.json", dumps(body, indent=2))


def _payload(outcome: AnalystPatch | AnalystFault, key: str) -> dict[str, Any] | None:
    if isinstance(outcome, AnalystFault):
        return None
    raw = RawPatch(
        patch=Patch([p.edit for p in outcome.proposals], outcome.reasoning),
        source_type=outcome.source_type,
        batch_size=len(outcome.trajectories),
        failure_summary=[
            FailureSummaryEntry(note.failure_type, note.count, note.description)
            for note in outcome.failures
        ],
    )
    payload = raw.to_dict()
    items = payload["patch"].pop("edits")
    # Additional fields: an adapter that passes them on keeps the evidence.
    for item, proposal in zip(items, outcome.proposals, strict=True):
        item["evidence"] = [one.to_dict() for one in proposal.evidence]
    for entry, note in zip(payload["failure_summary"], outcome.failures, strict=True):
        entry["ids"] = list(note.trajectories)
    payload["patch"][key] = items
    if outcome.execution_notes:
        payload["appendix_notes"] = list(outcome.execution_notes)
    return {**payload, "success_patterns": list(outcome.success_patterns)}

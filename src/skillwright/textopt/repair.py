"""Repair: send edits whose anchor is not in the document back to the optimizer, once, together.

An optimizer that quotes wrongly may name another anchor; its prompt shows the most similar lines.
The new text of an edit stays. Statuses name repaired edits; others stay skipped.

Source: SkillOpt (microsoft/SkillOpt) skips such edits, or appends those that insert; the repair is
ours.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import Purpose
from skillwright.core.fence import json_block
from skillwright.core.jsonio import JsonRecord
from skillwright.core.skill import body
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.edit_shapes import passage
from skillwright.textopt.optimizer import Call, Optimizer, RepairReply, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal, as_in
from skillwright.textopt.update import REPAIRED, EditOutcome, Update, apply_proposals

_LINES_SHOWN = 3
_COMPARED_CHARS = 200  # comparing is quadratic, and the start identifies a passage
_NEAR = 0.3


@dataclass(frozen=True, slots=True)
class Repair(JsonRecord):
    """One repair call.

    Attributes:
        call: ``s3.repair``.
        asked: Ids of the proposals sent back.
        repaired: Ids of those applied at another anchor.
        reasoning: The model's reasons for the anchors.
        fault: Reason why the reply was unusable, or ``None``.
        notes: Problems of single anchors in the reply.
        repairs: What was done to read the reply.
    """

    call: str
    asked: tuple[str, ...]
    repaired: tuple[str, ...] = ()
    reasoning: str = ""
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""
    repairs: tuple[str, ...] = ()


async def repair_anchors(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
    update: Update,
) -> tuple[Update, Repair | None]:
    """Ask once for other anchors, and apply the repaired edits after the others.

    Args:
        optimizer: The model.
        settings: The limits on edits, and whether to repair at all.
        context: The skill that ``update`` started from.
        proposals: The selected proposals, one per outcome of ``update``.
        update: Their outcomes.

    Returns:
        The update with the repaired edits and the record of the call; ``update`` and ``None`` if
        every anchor was found.
    """
    broken = [
        proposal
        for proposal, outcome in zip(proposals, update.outcomes, strict=True)
        if outcome.is_unanchored
    ]
    if not broken or not settings.repair_anchors:
        return update, None
    user = user_message(
        skill_section(update.candidate),
        ("Edits", json_block([_shown(proposal, update.candidate) for proposal in broken])),
    )
    call = Call(f"{context.name}.repair", "repair", user, Purpose.REPAIR, context.seed)
    answer = await optimizer.ask(call, RepairReply)
    record = Repair(call.name, tuple(p.id for p in broken), prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return update, replace(record, fault=answer.reply)
    reader = _Reader(broken, update.candidate)
    anchored = reader.read(answer.reply.anchors)
    sound = [proposal for proposal in proposals if proposal not in broken]
    again = apply_proposals(
        context.skill,
        [*sound, *anchored],
        settings.limits,
        insert_after_fallback=settings.insert_after_fallback,
    )
    update = _in_order(update, again, {proposal.id for proposal in anchored})
    repaired = tuple(o.proposal_id for o in update.outcomes if o.status.startswith(REPAIRED))
    return update, replace(
        record,
        repaired=repaired,
        reasoning=answer.reply.reasoning,
        notes=tuple(reader.notes),
        repairs=answer.repairs,
    )


def nearest_passages(anchor: str, text: str) -> list[str]:
    """Return up to three passages with as many lines as an anchor, the most similar first."""
    wanted = anchor.strip("\n")
    height = wanted.count("\n") + 1
    lines = text.splitlines()
    passages: dict[str, str] = {}
    for start in range(len(lines) - height + 1):
        passage = "\n".join(lines[start : start + height])
        if passage.strip():
            passages.setdefault(passage[:_COMPARED_CHARS], passage)
    near = difflib.get_close_matches(
        wanted[:_COMPARED_CHARS], list(passages), n=_LINES_SHOWN, cutoff=_NEAR
    )
    return [passages[start] for start in near]


def _shown(proposal: Proposal, text: str) -> dict[str, Any]:
    edit = proposal.edit
    return {
        "id": proposal.id,
        "op": edit.op,
        "target": edit.target,
        "content": edit.content,
        "nearest": nearest_passages(edit.target, body(text)),
    }


class _Reader:
    """Reads a repair's reply against the edits sent back."""

    def __init__(self, broken: Sequence[Proposal], text: str) -> None:
        self.notes: list[str] = []
        self._broken = {proposal.id: proposal for proposal in broken}
        self._text = text

    def read(self, items: Iterable[Any]) -> list[Proposal]:
        """Return the edits with a new anchor, in the order of selection."""
        anchored: dict[str, Proposal] = {}
        for item in items:
            known = self._broken.get(str(item.get("id"))) if isinstance(item, Mapping) else None
            if known is None:
                self.notes.append("an anchor names no edit that was sent back")
            elif known.id not in anchored:
                proposal = self._anchored(known, item)
                if proposal is not None:
                    anchored[known.id] = proposal
        missing = [name for name in self._broken if name not in anchored]
        self.notes += [f"{name} stays without an anchor" for name in missing]
        return [anchored[name] for name in self._broken if name in anchored]

    def _anchored(self, proposal: Proposal, item: Mapping[str, Any]) -> Proposal | None:
        edit, target = proposal.edit, item.get("target")
        if edit.op == "insert_after" and item.get("op") == "append":
            return replace(proposal, edit=replace(edit, op="append", target=""))
        if not isinstance(target, str) or not target:
            return None
        target = as_in(self._text, target)
        target = target if target in self._text else passage(self._text, target) or target
        if target not in self._text:
            self.notes.append(f"{proposal.id}: the new anchor is not in the document either")
            return None
        return replace(proposal, edit=replace(edit, target=target))


def _in_order(first: Update, again: Update, anchored: set[str]) -> Update:
    """Put the outcomes of the second application into the order of the first."""
    found = {outcome.proposal_id: outcome for outcome in again.outcomes}
    outcomes = [
        replace(_marked(found.get(old.proposal_id, old), anchored), index=old.index)
        for old in first.outcomes
    ]
    return replace(again, outcomes=tuple(outcomes))


def _marked(outcome: EditOutcome, anchored: set[str]) -> EditOutcome:
    if outcome.proposal_id not in anchored or not outcome.is_applied:
        return outcome
    return replace(outcome, status=REPAIRED + outcome.status.removeprefix("applied_"))

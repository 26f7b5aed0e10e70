"""The stored records of a step: every patch and edit, with its source."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from skillwright.runs import EditRecord, PatchRecord, Stage
from skillwright.textopt import AnalystFault, AppendixUpdate, StepProposal


def patch_records(
    proposal: StepProposal, step: int, appendix: AppendixUpdate | None = None
) -> list[PatchRecord]:
    """Return the replies of every stage of a step, in order of the stages, faults included.

    Each is named after its call: analysts (``s3.f0``), merges, the budget (``s3.lr``), the ranking
    (``s3.rank``), the repair of anchors (``s3.repair``), the rewrite (``s3.rewrite``) and the
    reminders (``s3.notes``).
    """
    return [
        *_analysts(proposal, step),
        *_merges(proposal, step),
        *_budget(proposal, step),
        *_ranking(proposal, step),
        *_repair(proposal, step),
        *_rewrite(proposal, step),
        *_notes(proposal, step, appendix),
    ]


def edit_records(proposal: StepProposal, step: int) -> list[EditRecord]:
    """Return every edit of a step, with the outcome of those that were selected."""
    outcomes = {outcome.proposal_id: outcome for outcome in proposal.update.outcomes}
    analyzed = {one.id for patch in proposal.reflection.patches for one in patch.proposals}
    records = []
    for one in proposal.proposals:
        outcome = outcomes.get(one.id)
        reached: Stage = "proposed" if one.id in analyzed else "merged"
        records.append(
            EditRecord(
                step=step,
                id=one.id,
                edit=one.edit,
                stage="selected" if outcome else reached,
                parents=one.parents,
                evidence=[(item.trajectory, item.turns) for item in one.evidence],
                prompt_digest=one.prompt_digest,
                status=outcome.status if outcome else "",
                lines=outcome.lines if outcome else None,
            )
        )
    return records


def edit_counts(proposal: StepProposal) -> dict[str, int]:
    """Count the edits of a step at each stage; dropped ones are among the proposed or merged."""
    patches, merges = proposal.reflection.patches, proposal.merged.merges
    dropped = sum(one.dropped for one in patches)
    return {
        "proposed": dropped + sum(len(one.proposals) for one in patches),
        "dropped": dropped + sum(one.dropped for one in merges),
        "merged": len(proposal.merged.proposals),
        "selected": len(proposal.selection.proposals),
        "applied": sum(one.is_applied for one in proposal.update.outcomes),
    }


def _patch(
    step: int, id: str, inputs: Sequence[str], said: Any, fault: AnalystFault | None, **more: Any
) -> PatchRecord:
    """Return the record of one call, with the digest of its prompt and its fault."""
    if repairs := getattr(said, "repairs", ()):
        more["details"] = {**more["details"], "repaired": list(repairs)}
    return PatchRecord(
        step=step,
        id=id,
        source_type=more.pop("source_type", ""),
        inputs=inputs,
        prompt_digest=getattr(said, "prompt_digest", ""),
        failure=fault.failure if fault else None,
        **more,
    )


def _analysts(proposal: StepProposal, step: int) -> list[PatchRecord]:
    patches = [
        _patch(
            step,
            one.call,
            one.trajectories,
            one,
            None,
            source_type=one.source_type,
            edits=[edit.id for edit in one.proposals],
            reasoning=one.reasoning,
            details={
                "failures": [asdict(note) for note in one.failures],
                "success_patterns": list(one.success_patterns),
                "notes": list(one.notes),
                "dropped": one.dropped,
                "cuts": [asdict(cut) for cut in one.cuts],
            },
        )
        for one in proposal.reflection.patches
    ]
    faults = [_patch(step, one.call, (), one, one) for one in proposal.reflection.faults]
    return [*patches, *faults]


def _merges(proposal: StepProposal, step: int) -> list[PatchRecord]:
    return [
        _patch(
            step,
            merge.call,
            merge.inputs,
            merge,
            merge.fault,
            edits=[one.id for one in merge.outputs],
            level=merge.level,
            details={"notes": list(merge.notes), "dropped": merge.dropped},
        )
        for merge in proposal.merged.merges
    ]


def _budget(proposal: StepProposal, step: int) -> list[PatchRecord]:
    decided = proposal.budget
    if not decided.prompt_digest:  # from the schedule, or no limit: no model was called
        return []
    inputs = [one.id for one in proposal.merged.proposals]
    details = {"budget": decided.budget, "fallback": decided.fallback}
    name, why = f"{proposal.context.name}.lr", decided.reasoning
    return [_patch(step, name, inputs, decided, decided.fault, reasoning=why, details=details)]


def _ranking(proposal: StepProposal, step: int) -> list[PatchRecord]:
    chosen = proposal.selection
    if not chosen.prompt_digest:  # everything fitted
        return []
    return [
        _patch(
            step,
            f"{proposal.context.name}.rank",
            [one.id for one in proposal.merged.proposals],
            chosen,
            chosen.fault,
            edits=[one.id for one in chosen.proposals],
            reasoning=chosen.reasoning,
            details={"ranked": chosen.ranked, "notes": list(chosen.notes)},
        )
    ]


def _repair(proposal: StepProposal, step: int) -> list[PatchRecord]:
    repair = proposal.made.repair
    if repair is None:
        return []
    targets = {outcome.proposal_id: outcome.target for outcome in proposal.update.outcomes}
    anchors = {one: targets[one] for one in repair.repaired}
    return [
        _patch(
            step,
            repair.call,
            repair.asked,
            repair,
            repair.fault,
            edits=repair.repaired,
            reasoning=repair.reasoning,
            details={"anchors": anchors, "notes": list(repair.notes)},
        )
    ]


def _rewrite(proposal: StepProposal, step: int) -> list[PatchRecord]:
    rewrite = proposal.made.rewrite
    if rewrite is None:
        return []
    # A skill that an analyst or a merge wrote is used without another call.
    name = rewrite.call or f"{proposal.context.name}.rewrite"
    inputs = [one.id for one in proposal.selection.proposals]
    edits = [one.proposal_id for one in proposal.update.outcomes if one.is_applied]
    details = {"change_summary": list(rewrite.change_summary), "unusable": rewrite.unusable}
    return [_patch(step, name, inputs, rewrite, rewrite.fault, edits=edits, details=details)]


def _notes(proposal: StepProposal, step: int, appendix: AppendixUpdate | None) -> list[PatchRecord]:
    if appendix is None or not appendix.step_notes:
        return []
    calls = [patch.call for patch in proposal.reflection.patches if patch.execution_notes]
    name, details = f"{proposal.context.name}.notes", appendix.to_dict()
    fault = appendix.fault
    return [_patch(step, name, calls, fault, fault, details=details)]

"""What a step leaves in the store: every patch and edit, with where it came from."""

from dataclasses import asdict

from skillwright.core import Failure
from skillwright.runs import EditRecord, PatchRecord, Stage
from skillwright.textopt import AnalystFault, AppendixUpdate, StepProposal


def patch_records(
    proposal: StepProposal, step: int, appendix: AppendixUpdate | None = None
) -> list[PatchRecord]:
    """Return what was said at every stage of a step, in order of the stages, faults included.

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


def _analysts(proposal: StepProposal, step: int) -> list[PatchRecord]:
    reflection = proposal.reflection
    patches = [
        PatchRecord(
            step=step,
            id=patch.call,
            source_type=patch.source_type,
            inputs=patch.trajectories,
            edits=[one.id for one in patch.proposals],
            reasoning=patch.reasoning,
            details={
                "failures": [asdict(note) for note in patch.failures],
                "success_patterns": list(patch.success_patterns),
                "notes": list(patch.notes),
                "cuts": [asdict(cut) for cut in patch.cuts],
            },
            prompt_digest=patch.prompt_digest,
        )
        for patch in reflection.patches
    ]
    faults = [
        PatchRecord(
            step=step,
            id=fault.call,
            source_type="",
            inputs=(),
            prompt_digest=fault.prompt_digest,
            failure=fault.failure,
        )
        for fault in reflection.faults
    ]
    return [*patches, *faults]


def _merges(proposal: StepProposal, step: int) -> list[PatchRecord]:
    return [
        PatchRecord(
            step=step,
            id=merge.call,
            source_type="",
            inputs=merge.inputs,
            edits=[one.id for one in merge.outputs],
            level=merge.level,
            details={"notes": list(merge.notes)},
            prompt_digest=merge.prompt_digest,
            failure=_failure(merge.fault),
        )
        for merge in proposal.merged.merges
    ]


def _budget(proposal: StepProposal, step: int) -> list[PatchRecord]:
    decided = proposal.budget
    if not decided.prompt_digest:  # the schedule's, or no limit: nobody was asked
        return []
    return [
        PatchRecord(
            step=step,
            id=f"{proposal.context.name}.lr",
            source_type="",
            inputs=[one.id for one in proposal.merged.proposals],
            reasoning=decided.reasoning,
            details={"budget": decided.budget, "fallback": decided.fallback},
            prompt_digest=decided.prompt_digest,
            failure=_failure(decided.fault),
        )
    ]


def _ranking(proposal: StepProposal, step: int) -> list[PatchRecord]:
    selection = proposal.selection
    if not selection.prompt_digest:  # everything fitted
        return []
    return [
        PatchRecord(
            step=step,
            id=f"{proposal.context.name}.rank",
            source_type="",
            inputs=[one.id for one in proposal.merged.proposals],
            edits=[one.id for one in selection.proposals],
            reasoning=selection.reasoning,
            details={"ranked": selection.ranked, "notes": list(selection.notes)},
            prompt_digest=selection.prompt_digest,
            failure=_failure(selection.fault),
        )
    ]


def _repair(proposal: StepProposal, step: int) -> list[PatchRecord]:
    repair = proposal.made.repair
    if repair is None:
        return []
    targets = {outcome.proposal_id: outcome.target for outcome in proposal.update.outcomes}
    return [
        PatchRecord(
            step=step,
            id=repair.call,
            source_type="",
            inputs=repair.asked,
            edits=repair.repaired,
            reasoning=repair.reasoning,
            details={
                "anchors": {one: targets[one] for one in repair.repaired},
                "notes": list(repair.notes),
            },
            prompt_digest=repair.prompt_digest,
            failure=_failure(repair.fault),
        )
    ]


def _rewrite(proposal: StepProposal, step: int) -> list[PatchRecord]:
    rewrite = proposal.made.rewrite
    if rewrite is None:
        return []
    return [
        PatchRecord(
            step=step,
            # A skill that an analyst or a merge wrote is taken without another call.
            id=rewrite.call or f"{proposal.context.name}.rewrite",
            source_type="",
            inputs=[one.id for one in proposal.selection.proposals],
            edits=[one.proposal_id for one in proposal.update.outcomes if one.is_applied],
            details={"change_summary": list(rewrite.change_summary), "unusable": rewrite.unusable},
            prompt_digest=rewrite.prompt_digest,
            failure=_failure(rewrite.fault),
        )
    ]


def _notes(proposal: StepProposal, step: int, appendix: AppendixUpdate | None) -> list[PatchRecord]:
    if appendix is None or not appendix.step_notes:
        return []
    patches = proposal.reflection.patches
    return [
        PatchRecord(
            step=step,
            id=f"{proposal.context.name}.notes",
            source_type="",
            inputs=[patch.call for patch in patches if patch.execution_notes],
            details=appendix.to_dict(),
            failure=_failure(appendix.fault),
        )
    ]


def _failure(fault: AnalystFault | None) -> Failure | None:
    return fault.failure if fault else None


def edit_records(proposal: StepProposal, step: int) -> list[EditRecord]:
    """Return every edit of a step, and what became of those that were selected."""
    outcomes = {outcome.proposal_id: outcome for outcome in proposal.update.outcomes}
    analysed = {one.id for patch in proposal.reflection.patches for one in patch.proposals}
    records = []
    for one in proposal.proposals:
        outcome = outcomes.get(one.id)
        reached: Stage = "proposed" if one.id in analysed else "merged"
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

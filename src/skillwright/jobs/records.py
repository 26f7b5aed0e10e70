"""What a step leaves in the store: every patch and edit, with where it came from."""

from dataclasses import asdict

from skillwright.runs import EditRecord, PatchRecord, Stage
from skillwright.textopt import StepProposal


def patch_records(proposal: StepProposal, step: int) -> list[PatchRecord]:
    """Return what every analyst and every merge of a step said, faults included."""
    reflection = proposal.reflection
    analysts = [
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
    merges = [
        PatchRecord(
            step=step,
            id=merge.call,
            source_type="",
            inputs=merge.inputs,
            edits=[one.id for one in merge.outputs],
            level=merge.level,
            details={"notes": list(merge.notes)},
            prompt_digest=merge.prompt_digest,
            failure=merge.fault.failure if merge.fault else None,
        )
        for merge in proposal.merged.merges
    ]
    return [*analysts, *faults, *merges]


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

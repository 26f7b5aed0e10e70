"""One step of a run: roll out, learn, judge, decide.

The first step has the baseline beside it: the initial skill is measured on val while its first
batch is rolled out and read, and only the gate waits for both.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from skillwright.core.protocols import both
from skillwright.datasets import BatchSpec
from skillwright.evaluation import ScoreTable
from skillwright.jobs.run.bench import StepRef
from skillwright.jobs.run.progress import Scored, StageStarted
from skillwright.jobs.run.resuming import write_down
from skillwright.jobs.text.history import step_decided
from skillwright.jobs.text.judging import Candidate, judge, stop_if_refused, store_candidate
from skillwright.jobs.text.state import Kind, StepRecord, TrainState
from skillwright.jobs.text.wiring import Assembly
from skillwright.rollout import EngineDown, refuse_no_score
from skillwright.runs import EditRecord, PatchRecord, Stage
from skillwright.textopt import (
    AnalystFault,
    AppendixUpdate,
    StepContext,
    StepProposal,
    StepStatus,
    TrainRollouts,
    add_notes,
    plain_document,
    propose,
)

# What a step leaves in the store: every patch and edit, with where it came from.


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


def _patch(
    step: int, id: str, inputs: Sequence[str], said: Any, fault: AnalystFault | None, **more: Any
) -> PatchRecord:
    """Return what was said in one call, with the digest of its prompt and its fault."""
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
            details={"notes": list(merge.notes)},
        )
        for merge in proposal.merged.merges
    ]


def _budget(proposal: StepProposal, step: int) -> list[PatchRecord]:
    decided = proposal.budget
    if not decided.prompt_digest:  # the schedule's, or no limit: nobody was asked
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
    # A skill that an analyst or a merge wrote is taken without another call.
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
    return [_patch(step, name, calls, None, appendix.fault, details=details)]


def edit_records(proposal: StepProposal, step: int) -> list[EditRecord]:
    """Return every edit of a step, and what became of those that were selected."""
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


async def take_step(
    run: Assembly,
    state: TrainState,
    batches: Sequence[BatchSpec],
    place: StepRef,
    on_played: Callable[[], None] = lambda: None,
) -> TrainState:
    """Take a step, write it down, all of it or nothing, and return what follows from it.

    ``on_played`` is called when all of its rollouts are in.
    """
    started, left = asyncio.Event(), iter(range(len(batches) - 1, -1, -1))

    def on_batch() -> None:
        if next(left) == 0:
            on_played()

    learning = _learn(run, state, batches, place, on_batch, started)
    if state.baseline is None:
        proposal, state = await both(learning, _measure_first(run, state, started))
    else:
        proposal = await learning
    judged = None
    if proposal.status is StepStatus.CANDIDATE:
        judged = await judge(run, state, proposal.candidate, place)
    return await _decide(run, state, place, proposal, judged)


async def _measure_first(run: Assembly, state: TrainState, started: asyncio.Event) -> TrainState:
    """Score the initial skill on val, and write that down as soon as it is known."""
    # The batch goes first: analysts wait for it, and nobody but the gate for the baseline.
    await started.wait()
    run.callback.on_event(StageStarted("baseline", episodes=run.bench.sizes.val or 0))
    results = await run.bench.measure(run.store.skill(0), "val", phase="gate")
    refuse_no_score(results)
    table = ScoreTable.of(results, run.config.env.success_threshold)
    run.callback.on_event(Scored("initial skill", "val", table.overall))
    return write_down(run.store, state, Kind.BASELINE, table.to_dict())


async def _learn(
    run: Assembly,
    state: TrainState,
    batches: Sequence[BatchSpec],
    place: StepRef,
    on_batch: Callable[[], None],
    started: asyncio.Event,
) -> StepProposal:
    """Roll out all micro-batches at once, and have the optimizer read each as it comes in."""
    step, epoch = place
    run.calls.step = step
    skill = run.store.skill(state.skill_version)
    context = StepContext(
        name=f"s{step}",
        # What is played is the text as it is; what a model quotes has plain line breaks.
        skill=plain_document(skill),
        budget=run.schedule.get_lr(step),
        seed=run.config.run.seed + step,
        earlier_steps=state.memory_in(epoch).render(),
        meta_skill=state.meta_skill,
    )
    is_read = False

    async def roll_out(batch: BatchSpec, index: int) -> TrainRollouts:
        nonlocal is_read
        started.set()
        played = await run.bench.train_on(batch, skill, place, index)
        on_batch()
        if not is_read:
            is_read = True
            run.callback.on_event(StageStarted("reflect", step, epoch))
        return played

    rollouts = sum(batch.batch_size for batch in batches)
    run.callback.on_event(StageStarted("rollout", step, epoch, episodes=rollouts))
    works = [roll_out(batch, index) for index, batch in enumerate(batches)]
    try:
        proposal = await propose(run.optimizer, run.settings, context, works)
    except EngineDown:
        stop_if_refused(run)
        raise
    stop_if_refused(run)
    return proposal


async def _flushed(run: Assembly, proposal: StepProposal, text: str) -> AppendixUpdate | None:
    """Add a step's reminders to the skill that is current now; ``None`` where they were judged."""
    aware = run.settings.skill_aware
    if aware is None or aware.gated:
        return None
    context = replace(proposal.context, skill=text)
    update = await add_notes(run.optimizer, run.settings, context, proposal.execution_notes)
    stop_if_refused(run)
    return update


async def _decide(
    run: Assembly,
    state: TrainState,
    place: StepRef,
    proposal: StepProposal,
    judged: Candidate | None,
) -> TrainState:
    """Write down a step, all of it or nothing, and return what follows from it."""
    now_current = judged.text if judged and judged.enters else proposal.context.skill
    flushed = await _flushed(run, proposal, now_current)
    appendix = flushed or proposal.made.appendix
    with run.store.transaction(durable=True):
        version = noted = None
        if judged is not None:
            version = store_candidate(run, state, place, "step", judged)
        if flushed is not None and flushed.skill != now_current:
            noted = run.store.add_skill_version(
                flushed.skill,
                parent=version if judged and judged.enters else state.skill_version,
                origin=f"appendix_step_{place.step:04d}",
                step=place.step,
            )
        run.store.record_patches(patch_records(proposal, place.step, appendix))
        run.store.record_edits(edit_records(proposal, place.step))
        record = _record(place, proposal, judged, version, noted)
        about = _about(proposal, appendix)
        state = write_down(run.store, state, Kind.STEP, record.to_dict() | about)
    run.callback.on_event(step_decided(record, state))
    return state


def _about(proposal: StepProposal, appendix: AppendixUpdate | None) -> dict[str, Any]:
    """Return what the store keeps of a step beside its record: nothing else follows from it."""
    found = {
        "appendix": appendix.to_dict() if appendix else None,
        "skipped": [asdict(skipped) for skipped in proposal.transcripts.skipped],
        "reflection_notes": list(proposal.reflection.notes),
    }
    return {name: value for name, value in found.items() if value}


def _record(
    place: StepRef,
    proposal: StepProposal,
    judged: Candidate | None,
    version: int | None,
    noted: int | None,
) -> StepRecord:
    action = judged.action if judged else proposal.status.value
    shown = next(iter(judged.verdicts), None) if judged else None
    scores = (shown.incumbent_score, shown.candidate_score) if shown else (None, None)
    decision = "accept" if action.startswith("accept") else action
    p_value = shown.p_value if shown else None
    return StepRecord(
        step=place.step,
        epoch=place.epoch,
        action=action,
        entry=proposal.entry(place.step, decision, scores=scores, p_value=p_value),
        verdict=judged.verdict if judged else None,
        skill_version=version,
        best_verdict=judged.best_verdict if judged else None,
        noted_version=noted,
    )

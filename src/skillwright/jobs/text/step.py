"""One step of a run: roll out, learn, judge, decide.

The baseline runs during the first step: the initial skill is measured on val while its first
batch is rolled out and read, and only the gate waits for both.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from skillwright.core.concurrency import both
from skillwright.core.seeds import derive_seed
from skillwright.datasets import BatchSpec
from skillwright.evaluation import ScoreTable
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run import Scored, StageStarted, env_findings
from skillwright.jobs.run.bench import StepRef, terms_of
from skillwright.jobs.run.resume import write_down
from skillwright.jobs.text.gate import Candidate, judge, stop_if_refused, store_candidate
from skillwright.jobs.text.guard import stop_if_unusable
from skillwright.jobs.text.history import step_decided
from skillwright.jobs.text.records import edit_counts, edit_records, patch_records
from skillwright.jobs.text.replies import Account, account_of_step
from skillwright.jobs.text.spending import can_judge
from skillwright.jobs.text.state import StepRecord, TrainState
from skillwright.jobs.text.wiring import TrainParts
from skillwright.rollout import EngineDown, refuse_no_score
from skillwright.textopt import (
    AppendixUpdate,
    StepContext,
    StepProposal,
    StepStatus,
    TrainRollouts,
    add_notes,
    plain_document,
    propose,
)


async def take_step(
    run: TrainParts,
    state: TrainState,
    batches: Sequence[BatchSpec],
    place: StepRef,
    source: StepRef,
) -> TrainState:
    """Take a step, store it in one transaction, and return the state after it.

    It reads the rollouts of the step ``source``, which are stored if that is an earlier one.

    If the budget leaves nothing for judging its candidate, it is not stored: a run that continues
    with a larger budget repeats it from stored episodes and calls, and judges it.
    """
    started = asyncio.Event()
    learning = _learn(run, state, batches, (place, source), started)
    if state.baseline is None:
        proposal, state = await both(learning, _measure_first(run, state, started))
    else:
        proposal = await learning
    _guard(run, state, place, proposal)
    judged = None
    if proposal.status is StepStatus.CANDIDATE:
        if not can_judge(run, state, place.step):
            return state
        judged = await judge(run, state, proposal.candidate, place)
    return await _decide(run, state, place, proposal, judged)


def _guard(run: TrainParts, state: TrainState, place: StepRef, proposal: StepProposal) -> None:
    patience = run.config.train.patience
    ends = patience is not None and state.idle_steps + 1 >= patience
    is_last = ends or place.step == run.steps
    account = _account(proposal, place)
    stop_if_unusable(run, state, account, f"step {place.step}", is_last=is_last)


async def _measure_first(run: TrainParts, state: TrainState, started: asyncio.Event) -> TrainState:
    """Score the initial skill on val, and store the score."""
    # The batch starts first: analysts wait for it; only the gate waits for the baseline.
    await started.wait()
    run.callback.on_event(StageStarted("baseline", episodes=run.bench.sizes.val or 0))
    results = await run.bench.measure(run.store.skill(0), "val", phase="gate")
    refuse_no_score(results)
    table = ScoreTable.of(results, run.config.env.success_threshold)
    found = None
    if table.overall.success_rate == 0:
        found = env_findings(run.config, "val", 1, results)
    hints = tuple(found.facts.get("hints", ())) if found else ()
    run.callback.on_event(Scored("initial skill", "val", table.overall, hints))
    about: dict[str, Any] = {"hints": hints} if hints else {}
    if run.gate.believes:
        scored = map(run.gate.scores(terms_of(run.config, {})).scored, results)
        about["drawn"] = {one.task_id: one.reward for one in scored if one.reward is not None}
    return write_down(run.store, state, Kind.BASELINE, table.to_dict() | about)


async def _learn(
    run: TrainParts,
    state: TrainState,
    batches: Sequence[BatchSpec],
    places: tuple[StepRef, StepRef],
    started: asyncio.Event,
) -> StepProposal:
    """Roll out all micro-batches concurrently; the optimizer reads each when it is finished."""
    (step, epoch), source = places
    run.calls.step = step
    skill = run.store.skill(state.skill_version)
    context = StepContext(
        name=f"s{step}",
        # Rollouts use the text unchanged; models quote it with plain line breaks.
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
        played = await run.bench.train_on(batch, skill, source, index)
        if source.step != step:  # in other minibatches
            played = replace(played, seed=derive_seed("again", run.config.run.seed, step, index))
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


async def _flushed(run: TrainParts, proposal: StepProposal, text: str) -> AppendixUpdate | None:
    """Add a step's reminders to the current skill; ``None`` if the gate has judged them."""
    aware = run.settings.skill_aware
    if aware is None or aware.gated:
        return None
    context = replace(proposal.context, skill=text)
    update = await add_notes(run.optimizer, run.settings, context, proposal.execution_notes)
    stop_if_refused(run)
    return update


async def _decide(
    run: TrainParts,
    state: TrainState,
    place: StepRef,
    proposal: StepProposal,
    judged: Candidate | None,
) -> TrainState:
    """Store a step in one transaction, and return the state after it."""
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
        account = _account(proposal, place, appendix)
        record = replace(
            _record(place, proposal, judged, version, noted),
            replies=account.replies,
            remarks=account.remarks,
        )
        about = _about(proposal, appendix)
        state = write_down(run.store, state, Kind.STEP, record.to_dict() | about)
    # In the stored form, without known secrets.
    run.callback.on_event(step_decided(state.steps[-1], state))
    return state


def _account(
    proposal: StepProposal, place: StepRef, appendix: AppendixUpdate | None = None
) -> Account:
    patches = patch_records(proposal, place.step, appendix or proposal.made.appendix)
    return account_of_step(proposal, patches, edit_records(proposal, place.step))


def _about(proposal: StepProposal, appendix: AppendixUpdate | None) -> dict[str, Any]:
    """Return the details of a step to store with its record."""
    found = {
        "appendix": appendix.to_dict() if appendix else None,
        "skipped": [asdict(skipped) for skipped in proposal.transcripts.skipped],
        "reflection_notes": list(proposal.notes),
        "edits": edit_counts(proposal),
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

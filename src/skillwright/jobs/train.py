"""Train a skill document: the act, from the initial skill to the sealed test.

    initial skill -> baseline on val
    [ [ train batch -> rollouts -> analysts -> merge -> budget -> candidate -> gate ] x steps
      look back: slow update -> gate, meta skill ] x epochs
    test, opened once: initial, best, final

The learner returns values; this file writes. Every decision is one transaction, and the state that
the next step starts from is a fold over the store, so a run that was killed goes on as if it had
not been.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    ModelRefused,
    PlainSkill,
    Task,
    skill_hash,
)
from skillwright.core.seeds import evaluation_seed, training_seed
from skillwright.core.together import together
from skillwright.datasets import plan_epoch
from skillwright.evaluation import Draws, ScoreTable, SkillDuel, SplitReport, Verdict
from skillwright.jobs.look_back import look_back
from skillwright.jobs.placebo import placebo_text
from skillwright.jobs.progress import EpochEnded, RunStarted, Scored, StageStarted, StepDecided
from skillwright.jobs.records import edit_records, patch_records
from skillwright.jobs.same_tasks import refuse_other_tasks
from skillwright.jobs.state import Kind, StepRecord, TrainState, fold
from skillwright.jobs.wiring import Assembly
from skillwright.rollout import refuse_no_score
from skillwright.runs import RunFolder, VerdictRecord
from skillwright.textopt import (
    SlowUpdateStatus,
    StepContext,
    StepProposal,
    StepStatus,
    propose,
)


class StepPlace(NamedTuple):
    """Where a step stands in the run; both numbers from 1."""

    step: int
    epoch: int


class Judged(NamedTuple):
    """A candidate that the gate has judged, and the stage that made it."""

    stage: Literal["step", "slow_update"]
    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a finished run has to show.

    Attributes:
        state: Where it stands.
        initial_skill: The text it began with.
        best_skill: The text that proved itself.
    """

    state: TrainState
    initial_skill: str
    best_skill: str

    @property
    def test(self) -> SplitReport | None:
        """Scores on test, or ``None`` where the run does not test."""
        return self.state.report

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "steps": [step.to_dict() for step in self.state.steps],
            "epochs": [epoch.to_dict() for epoch in self.state.epochs],
            "baseline": self.state.baseline.to_dict() if self.state.baseline else None,
            "test": self.test.to_dict() if self.test else None,
            "initial_skill": self.initial_skill,
            "best_skill": self.best_skill,
        }


async def train(run: Assembly, folder: RunFolder) -> TrainReport:
    """Train, or go on training, and return the report; a finished run returns at once.

    Args:
        run: The parts, assembled from the run's configuration; the initial skill stands in the
            store as version 0.
        folder: Where it is written.

    Raises:
        DataError: The tasks are not those that the run began with.
        ModelRefused: An endpoint refuses the key or the model; mend it, and the run goes on.
        EngineDown: Nothing but failures came back; the run can be resumed.
        RunError: The folder cannot be written.
    """
    refuse_other_tasks(run)
    state = _restore(run, folder)
    _introduce(run, state, folder)
    if not state.finished:
        state = await _go_on(run, state, folder)
    return TrainReport(
        state=state,
        initial_skill=run.store.skill(0),
        best_skill=run.store.skill(state.skill_version),
    )


async def _go_on(run: Assembly, state: TrainState, folder: RunFolder) -> TrainState:
    """Do all that is left to do, in order."""
    if state.baseline is None:
        state = await _measure_baseline(run, state)
    for epoch in range(1, run.config.train.epochs + 1):
        last = epoch * run.steps_per_epoch
        for step in range(max(state.last_step, last - run.steps_per_epoch) + 1, last + 1):
            state = await _take_step(run, state, StepPlace(step, epoch))
            _publish(run, state, folder)
        if run.config.optimizer.looks_back and state.last_epoch < epoch:
            state = await _end_epoch(run, state, epoch)
            _publish(run, state, folder)
    if run.config.evaluation.test and state.report is None:
        state = await _open_test(run, state)
    return _write(run, state, Kind.FINISHED, {})


def _restore(run: Assembly, folder: RunFolder) -> TrainState:
    start = TrainState.first(run.config.evaluation.alpha, planned=run.decisions)
    state = fold(start, run.store.events())
    _publish(run, state, folder)
    return state


def _publish(run: Assembly, state: TrainState, folder: RunFolder) -> None:
    """Write the files that people read; the store has it all, so they can be written again."""
    for version in run.store.skills():
        folder.write_skill_version(version.version, run.store.skill(version.version))
    folder.write_best_skill(run.store.skill(state.skill_version))


def _introduce(run: Assembly, state: TrainState, folder: RunFolder) -> None:
    config, todo = run.config, state.last_step + 1
    run.watcher.see(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            minds={"target": run.target_identity, "optimiser": run.calls.identity},
            facts=(
                f"{config.env.name}: {len(run.splits.train.tasks)} train, "
                f"{len(run.splits.val.tasks)} val, {len(run.splits.test)} sealed test tasks",
                f"{run.steps} steps, {config.evaluation.gate.kind} gate",
            ),
            steps=run.steps,
            epochs=config.train.epochs,
            episodes=_expected_episodes(run),
            resumed_at=todo if state.baseline and todo <= run.steps else None,
        )
    )
    if state.baseline is not None:
        run.watcher.see(Scored("initial skill", "val", state.baseline.overall))


def _expected_episodes(run: Assembly) -> int:
    val, test, config = len(run.splits.val.tasks), len(run.splits.test), run.config
    judged = 2 * val * run.gate_draws * run.decisions
    practised = config.train.batch_size * config.train.accumulation * run.steps
    looks = config.train.epochs - 1 if config.optimizer.looks_back else 0
    compared = 2 * min(config.optimizer.slow_update_samples, len(run.splits.train.tasks)) * looks
    tested = test * (2 + config.evaluation.placebo) if config.evaluation.test else 0
    return val + practised + judged + compared + tested


async def _measure_baseline(run: Assembly, state: TrainState) -> TrainState:
    tasks = run.splits.val.tasks
    run.watcher.see(StageStarted("baseline", episodes=len(tasks)))
    specs = [_evaluation_spec(run, task, "gate") for task in tasks]
    results = await run.engine.run(specs, PlainSkill(run.store.skill(0)))
    refuse_no_score(results)
    table = ScoreTable.of(results, run.config.env.success_threshold)
    run.watcher.see(Scored("initial skill", "val", table.overall))
    return _write(run, state, Kind.BASELINE, table.to_dict())


async def _take_step(run: Assembly, state: TrainState, place: StepPlace) -> TrainState:
    step = place.step
    skill = run.store.skill(state.skill_version)
    results = await _roll_out_batch(run, skill, place)
    run.watcher.see(StageStarted("reflect", step, place.epoch))
    run.calls.step = step
    context = StepContext(
        name=f"s{step}",
        skill=skill,
        budget=run.schedule.get_lr(step),
        seed=run.config.run.seed + step,
        earlier_steps=state.memory.render(),
        meta_skill=state.meta_skill,
    )
    proposal = await propose(run.optimizer, run.settings, context, results)
    _stop_if_refused(run)
    verdict = None
    if proposal.status is StepStatus.CANDIDATE:
        verdict = await _judge(run, state, skill, proposal.candidate, place)
    return _decide(run, state, place, proposal, verdict)


def _stop_if_refused(run: Assembly) -> None:
    """Stop where the optimiser was refused: what is missing now would be there after a resume."""
    if run.calls.refusal is not None:
        raise ModelRefused(f"the optimiser was refused: {run.calls.refusal}")


async def _end_epoch(run: Assembly, state: TrainState, epoch: int) -> TrainState:
    """Look back over an epoch; guidance that comes of it passes the gate like any other change."""
    place = StepPlace(state.last_step, epoch)
    run.calls.step = place.step  # a run that goes on here has taken no step yet
    found = await look_back(run, state, epoch)
    _stop_if_refused(run)
    verdict = version = None
    update = found.slow_update
    if update is not None and update.status is SlowUpdateStatus.CANDIDATE:
        skill = run.store.skill(state.skill_version)
        verdict = await _judge(run, state, skill, update.candidate, place)
    with run.store.transaction(durable=True):
        if update is not None and verdict is not None:
            judged = Judged("slow_update", update.candidate, verdict)
            version = _store_judged(run, state, place, judged)
        record = found.record(state, verdict, version)
        state = _write(run, state, Kind.EPOCH, {**record.to_dict(), **found.details()})
    run.watcher.see(EpochEnded(epoch, record.action, verdict))
    return state


async def _roll_out_batch(run: Assembly, skill: str, place: StepPlace) -> list[EpisodeResult]:
    step, epoch = place
    seed, each = run.config.run.seed, run.config.train.accumulation
    planned = plan_epoch(
        run.splits.train.tasks,
        epoch=epoch,
        batches=run.steps_per_epoch * each,
        batch_size=run.config.train.batch_size,
        seed=seed,
    )
    first = (step - 1) % run.steps_per_epoch * each
    tasks = [task for batch in planned[first : first + each] for task in batch.items]
    # A refilled micro-batch may hold a task that the step has already: other luck for its second.
    draws = [tasks[:index].count(task) for index, task in enumerate(tasks)]
    specs = [
        EpisodeSpec(task, training_seed(seed, epoch, step, task.id, draw), draw, "train", step)
        for task, draw in zip(tasks, draws, strict=True)
    ]
    run.watcher.see(StageStarted("rollout", step, epoch, episodes=len(specs)))
    return await run.engine.run(specs, PlainSkill(skill))


async def _judge(
    run: Assembly, state: TrainState, skill: str, candidate: str, place: StepPlace
) -> Verdict:
    rollouts = 2 * len(run.splits.val.tasks) * run.gate_draws
    run.watcher.see(StageStarted("gate", place.step, place.epoch, episodes=rollouts))
    # A skill that was accepted on some draws looks better on them than it is. After each accept
    # the gate draws fresh ones, so the new incumbent's luck is not held for skill.
    first = state.accepts * run.gate_draws
    draws = Draws(run.config.run.seed, first=first, step=place.step)
    duel = SkillDuel(
        run.engine, run.splits.val.tasks, PlainSkill(skill), PlainSkill(candidate), draws
    )
    return await run.gate.judge(duel, state.ledger)


def _store_judged(run: Assembly, state: TrainState, place: StepPlace, judged: Judged) -> int:
    """Store a judged candidate with its verdict, and return its version."""
    by_step = f"step_{place.step:04d}"
    by_epoch = f"slow_update_epoch_{place.epoch:02d}"
    version = run.store.add_skill_version(
        judged.text,
        parent=state.skill_version,
        origin=by_step if judged.stage == "step" else by_epoch,
        step=place.step,
    )
    body = judged.verdict.to_dict()
    run.store.record_verdict(
        VerdictRecord(place.step, body, skill_hash(judged.text), origin=judged.stage)
    )
    return version


def _decide(
    run: Assembly,
    state: TrainState,
    place: StepPlace,
    proposal: StepProposal,
    verdict: Verdict | None,
) -> TrainState:
    """Write down a step, all of it or nothing, and return what follows from it."""
    action = _action(proposal, verdict)
    scores = (verdict.incumbent_score, verdict.candidate_score) if verdict else (None, None)
    p_value = verdict.p_value if verdict else None
    told = "accept" if action.startswith("accept") else action
    with run.store.transaction(durable=True):
        version = None
        if verdict is not None:
            judged = Judged("step", proposal.candidate, verdict)
            version = _store_judged(run, state, place, judged)
        run.store.record_patches(patch_records(proposal, place.step))
        run.store.record_edits(edit_records(proposal, place.step))
        record = StepRecord(
            step=place.step,
            epoch=place.epoch,
            action=action,
            entry=proposal.entry(place.step, told, scores=scores, p_value=p_value),
            verdict=verdict,
            skill_version=version,
        )
        state = _write(run, state, Kind.STEP, record.to_dict())
    run.watcher.see(StepDecided(place.step, place.epoch, action, verdict))
    return state


def _action(proposal: StepProposal, verdict: Verdict | None) -> str:
    if verdict is None:
        return proposal.status.value
    return "accept_new_best" if verdict.accepted else verdict.decision.value


async def _open_test(run: Assembly, state: TrainState) -> TrainState:
    """Score every artefact in the one act that may see the test split."""
    tasks = run.splits.test.open()
    best = run.store.skill(state.skill_version)
    skills = {"initial": run.store.skill(0), "best": best, "final": best}
    if run.config.evaluation.placebo:
        skills["placebo"] = placebo_text(len(best))
    if state.sealed:
        names = {name: skill_hash(text) for name, text in skills.items()}
        state = _write(run, state, Kind.TEST_OPENED, {"skills": names})
    distinct = len(set(skills.values()))
    run.watcher.see(StageStarted("test", episodes=distinct * len(tasks)))
    specs = [_evaluation_spec(run, task, "test") for task in tasks]
    played = await together(run.engine.run(specs, PlainSkill(text)) for text in skills.values())
    results = dict(zip(skills, played, strict=True))
    report = SplitReport.of("test", results, run.config.env.success_threshold)
    state = _write(run, state, Kind.TEST, report.to_dict())
    for name, table in report.tables.items():
        run.watcher.see(Scored(f"{name} skill", "test", table.overall))
    return state


def _evaluation_spec(run: Assembly, task: Task, phase: str) -> EpisodeSpec:
    return EpisodeSpec(task, evaluation_seed(run.config.run.seed, task.id, draw=0), phase=phase)


def _write(run: Assembly, state: TrainState, kind: Kind, payload: dict[str, Any]) -> TrainState:
    """Append an event and fold it in as it was stored, so that a resume folds in the same."""
    last = run.store.append_event(kind, payload)
    return fold(state, run.store.events(after=last - 1))

"""Train a skill document: the act, from the initial skill to the sealed test.

    initial skill -> baseline on val
    [ train batch -> rollouts -> analysts -> merge -> budget -> candidate -> gate ] x steps
    test, opened once: initial, best, final

The learner returns values; this file writes. Every decision is one transaction, and the state that
the next step starts from is a fold over the store, so a run that was killed goes on as if it had
not been.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

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
from skillwright.jobs.placebo import placebo_text
from skillwright.jobs.progress import RunStarted, Scored, StageStarted, StepDecided
from skillwright.jobs.records import edit_records, patch_records
from skillwright.jobs.same_tasks import refuse_other_tasks
from skillwright.jobs.state import Kind, StepRecord, TrainState, fold
from skillwright.jobs.wiring import Assembly
from skillwright.runs import RunFolder, VerdictRecord
from skillwright.textopt import StepContext, StepProposal, StepStatus, propose


class StepPlace(NamedTuple):
    """Where a step stands in the run; both numbers from 1."""

    step: int
    epoch: int


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
    if state.baseline is None:
        state = await _measure_baseline(run, state)
    for step in range(state.last_step + 1, run.steps + 1):
        state = await _take_step(run, state, step, folder)
    if run.config.evaluation.test and state.report is None:
        state = await _open_test(run, state)
    if not state.finished:
        state = _write(run, state, Kind.FINISHED, {})
    return TrainReport(
        state=state,
        initial_skill=run.store.skill(0),
        best_skill=run.store.skill(state.skill_version),
    )


def _restore(run: Assembly, folder: RunFolder) -> TrainState:
    start = TrainState.first(run.config.evaluation.alpha, planned=run.steps)
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
    val, test, train = len(run.splits.val.tasks), len(run.splits.test), run.config.train
    step = train.batch_size * train.accumulation + 2 * val * run.gate_draws
    tested = 2 + run.config.evaluation.placebo if run.config.evaluation.test else 0
    return val + step * run.steps + test * tested


async def _measure_baseline(run: Assembly, state: TrainState) -> TrainState:
    tasks = run.splits.val.tasks
    run.watcher.see(StageStarted("baseline", episodes=len(tasks)))
    specs = [_evaluation_spec(run, task, "gate") for task in tasks]
    results = await run.engine.run(specs, PlainSkill(run.store.skill(0)))
    table = ScoreTable.of(results, run.config.env.success_threshold)
    run.watcher.see(Scored("initial skill", "val", table.overall))
    return _write(run, state, Kind.BASELINE, table.to_dict())


async def _take_step(run: Assembly, state: TrainState, step: int, folder: RunFolder) -> TrainState:
    epoch = (step - 1) // run.steps_per_epoch + 1
    skill = run.store.skill(state.skill_version)
    results = await _roll_out_batch(run, skill, step, epoch)
    run.watcher.see(StageStarted("reflect", step, epoch))
    run.calls.step = step
    context = StepContext(
        name=f"s{step}",
        skill=skill,
        budget=run.schedule.get_lr(step),
        seed=run.config.run.seed + step,
        earlier_steps=state.memory.render(),
    )
    proposal = await propose(run.optimizer, run.settings, context, results)
    if run.calls.refusal is not None:
        # What is missing now would be there after a resume, so this step is not decided without.
        raise ModelRefused(f"the optimiser was refused: {run.calls.refusal}")
    verdict = None
    if proposal.status is StepStatus.CANDIDATE:
        run.watcher.see(_gate_stage(run, step, epoch))
        verdict = await run.gate.judge(_duel(run, state, proposal, step), state.ledger)
    state = _decide(run, state, StepPlace(step, epoch), proposal, verdict)
    _publish(run, state, folder)
    return state


async def _roll_out_batch(run: Assembly, skill: str, step: int, epoch: int) -> list[EpisodeResult]:
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
    draws = [tasks[:place].count(task) for place, task in enumerate(tasks)]
    specs = [
        EpisodeSpec(task, training_seed(seed, epoch, step, task.id, draw), draw, "train", step)
        for task, draw in zip(tasks, draws, strict=True)
    ]
    run.watcher.see(StageStarted("rollout", step, epoch, episodes=len(specs)))
    return await run.engine.run(specs, PlainSkill(skill))


def _gate_stage(run: Assembly, step: int, epoch: int) -> StageStarted:
    rollouts = 2 * len(run.splits.val.tasks) * run.gate_draws
    return StageStarted("gate", step, epoch, episodes=rollouts)


def _duel(run: Assembly, state: TrainState, proposal: StepProposal, step: int) -> SkillDuel:
    return SkillDuel(
        run.engine,
        run.splits.val.tasks,
        PlainSkill(proposal.context.skill),
        PlainSkill(proposal.candidate),
        # A skill that was accepted on some draws looks better on them than it is. After each
        # accept the gate draws fresh ones, so the new incumbent's luck is not held for skill.
        Draws(run.config.run.seed, first=state.accepts * run.gate_draws, step=step),
    )


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
            version = run.store.add_skill_version(
                proposal.candidate,
                parent=state.skill_version,
                origin=f"step_{place.step:04d}",
                step=place.step,
            )
            body = verdict.to_dict()
            candidate = proposal.update.candidate_hash
            run.store.record_verdict(VerdictRecord(place.step, body, candidate))
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

"""Train a skill document: from the initial skill to the sealed test.

    initial skill -> baseline on val, concurrently with the first step
    [ [ train batch -> rollouts -> analysts -> merge -> budget -> candidate -> gate ] x steps
      epoch update: slow update -> gate, meta skill ] x epochs
    the last skill against the best, if they differ
    test, opened once: initial, best, final

The optimizer returns values, and only this job writes them. Every decision is one transaction, and
each step starts from the state in the store, so a killed run resumes with equal results.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skillwright.config.readers import mode_of
from skillwright.config.run import BudgetSection, RunConfig
from skillwright.core import ConfigError, RunError, skill_hash
from skillwright.core.jsonio import encode
from skillwright.datasets import BatchSpec
from skillwright.datasets.clusters import clusters_line
from skillwright.evaluation import (
    RELEASE_PHASE,
    RELEASE_STRIDE,
    SplitReport,
    Timed,
    alpha_lines,
    drift_line,
)
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run import Caveat, RunStarted, Scored, StepRef, budget_gaps, priced_models
from skillwright.jobs.run.bank_source import injected_lines
from skillwright.jobs.run.resume import refuse_other_tasks, write_down
from skillwright.jobs.text.gate import end_epoch, judge_last, open_sealed, release, run_release_test
from skillwright.jobs.text.repeats import share_of_repeat
from skillwright.jobs.text.spending import can_update, next_move, step_read
from skillwright.jobs.text.state import TrainState, restore
from skillwright.jobs.text.step import take_step
from skillwright.jobs.text.wiring import TrainParts, expected_episodes, refuse_hopeless_gate
from skillwright.runs import EpisodeSummary, RunFolder, RunStore

_REPORTED = ("steps", "epochs", "ran_out_of_patience", "baseline", "final")


@dataclass(frozen=True, slots=True)
class TrainReport:
    """The report of a finished run.

    Attributes:
        best_skill: The skill that a gate accepted last.
        final_skill: The current skill, which differs if something entered it without a gate.
    """

    state: TrainState
    initial_skill: str
    best_skill: str
    final_skill: str

    @property
    def test(self) -> SplitReport | None:
        """Scores on test, or ``None`` where the run does not test."""
        return self.state.report

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        state = self.state
        return {
            **{name: encode(getattr(state, name)) for name in _REPORTED},
            "test": encode(self.test),
            "confirmation": encode(state.confirmation),
            "memorized": state.memorized,
            "refuted": state.refuted,
            "initial_skill": self.initial_skill,
            "best_skill": self.best_skill,
            "final_skill": self.final_skill,
        }


async def train(run: TrainParts, folder: RunFolder) -> TrainReport:
    """Train, or continue training, and return the report.

    Args:
        run: The parts of the run; the store has the initial skill as version 0.
        folder: The run's folder.

    Raises:
        DataError: The tasks are not those that the run began with.
        ConfigError: No candidate could ever pass the gate on so few val tasks.
        ModelRefused: An endpoint refuses the key or the model; correct it, and resume.
        EngineDown: Every episode failed; the run can be resumed.
        RunError: The folder cannot be written.
    """
    refuse_other_tasks(run.store, run.bench.facts)
    state = restore(run.config, run.store)
    sizes = run.bench.sizes
    if not state.steps and sizes.val is not None:
        refuse_hopeless_gate(run.config, sizes.train, sizes.val, run.bench.clusters)
    _publish(run.store, state, folder)
    _introduce(run, state, folder)
    if state.finished:
        if not state.continues_under(run.config.budget):
            return _report(run.store, state)
        # Other trainings of its skill folder took no account of a run that had tested nothing.
        share = {} if state.tested else share_of_repeat(run.config, folder.path)
        state = write_down(run.store, state, Kind.CONTINUED, {"steps": state.last_step, **share})
    for epoch in range(1, run.config.train.epochs + 1):
        state = await _live_epoch(run, state, epoch, folder)
        if state.last_step < epoch * run.steps_per_epoch:
            break  # the budget or patience allows no further step
    state = await judge_last(run, state)
    state = await open_sealed(run, state)
    _publish(run.store, state, folder)
    how: dict[str, Any] = {}
    if state.last_step < run.steps:
        how = {"ran_out_of_patience": True}
        if not _is_impatient(run, state):
            how = _cut(run.steps, run.config.budget)
    return _report(run.store, _finished(run, state, how))


def _cut(steps: int, budget: BudgetSection) -> dict[str, Any]:
    return {"cut_by_budget": steps, "cut_under": budget.model_dump()}


def _finished(run: TrainParts, state: TrainState, how: Mapping[str, Any]) -> TrainState:
    """Write down the end of a run, with what its released skill has memorized."""
    released, initial = run.store.skill(state.best_version), run.store.skill(0)
    copied = run.bench.memorized(released, initial) if released != initial else ""
    found = {"memorized": copied, "drift": drift_line(_repeated(run.store), run.config.run.seed)}
    known = {name: said for name, said in found.items() if said}
    for said in known.values():
        run.callback.on_event(Caveat(said))
    return write_down(run.store, state, Kind.FINISHED, {**how, **known})


def _repeated(store: RunStore) -> Iterator[Timed]:
    """Yield draws that did not depend on the results of others in their group, in order.

    These are rollouts for training, the initial skill's first draws on val, and those of a release
    test. That draws again where results differ, so its later draws are a group of their own.
    """
    initial = skill_hash(store.skill(0))
    for at, one in enumerate(sorted(store.episodes(), key=lambda one: (one.started_at, one.id))):
        is_first = one.phase == "gate" and one.draw == 0
        usable = one.phase == "train" or (is_first and _document(one) == initial)
        number = one.draw % RELEASE_STRIDE
        if one.phase == RELEASE_PHASE:
            usable = number != 1  # the second draw may be the last, if both are alike
        if one.reward is not None and usable:
            is_later = one.phase == RELEASE_PHASE and number > 1
            yield Timed((one.task_id, one.skill_version, is_later), at, one.reward)


def _document(episode: EpisodeSummary) -> str:
    """Return the hash of an episode's skill document; with a bank, the version names both."""
    return episode.skill_version.split("+")[0]


async def prove(run: TrainParts, folder: RunFolder) -> TrainReport:
    """Test a finished run's release once more, on fresh draws, with the alpha reserved for it."""
    refuse_other_tasks(run.store, run.bench.facts)
    state, test = restore(run.config, run.store), run.gate.release
    if test is None:
        raise ConfigError(f"run {folder.name!r} has nothing to prove: {why_not_again(state)}")
    state = await run_release_test(run, state, test)
    _publish(run.store, state, folder)
    how: dict[str, Any] = {"ran_out_of_patience": True} if state.ran_out_of_patience else {}
    if state.cut_by_budget and state.cut_under is not None:
        how = _cut(state.cut_by_budget, state.cut_under)
    return _report(run.store, _finished(run, state, how))


def release_version(
    config: RunConfig, store: RunStore, folder: RunFolder, version: int
) -> TrainState:
    """Make a version the released one of a finished run; no version is lost.

    Raises:
        RunError: The run is not finished, or its files cannot be written.
    """
    state = restore(config, store)
    if not state.finished:
        raise RunError(
            f"run {folder.name!r} is not finished, and training would continue from its current "
            f"version; take this one away with `skillwright skill export {folder.name}@{version}`, "
            "or finish the run with `skillwright resume`"
        )
    if state.best_version != version:
        state = write_down(store, state, Kind.RESTORED, {"version": version})
    _publish(store, state, folder)
    return state


def why_not_again(state: TrainState) -> str:
    """Return why a run's release cannot be tested once more, or "" if it can."""
    if not state.two_levels:
        return "its gate proves each step, and has no release test"
    if not state.finished:
        return "it is not finished; resume it first, which tests what it ends with"
    if state.final is None or state.final.accepted:
        return "what it ended with is released" if state.final else "nothing was accepted in it"
    if not state.ledger.share:
        return "its alpha is spent on its tests; a new run has an alpha of its own"
    return ""


def finished_report(config: RunConfig, store: RunStore, folder: RunFolder) -> TrainReport | None:
    """Return the report of a run that is finished and does not continue, or ``None``.

    Calls no model.
    """
    state = restore(config, store)
    if not state.finished or state.continues_under(config.budget):
        return None
    _publish(store, state, folder)
    return _report(store, state)


async def _live_epoch(
    run: TrainParts, state: TrainState, epoch: int, folder: RunFolder
) -> TrainState:
    """Take the remaining steps of an epoch, then its epoch update.

    When patience runs out, the epoch's other steps are skipped. If its last step used it up, the
    update still runs: its guidance is one more candidate, and training continues if it is accepted.
    """
    each, last = run.config.train.accumulation, epoch * run.steps_per_epoch
    before = last - run.steps_per_epoch
    todo = range(max(state.last_step, before) + 1, last + 1)
    planned: dict[int, list[BatchSpec]] = {}
    for step in todo:
        state, goes = await _before_step(run, state, folder)
        if not goes:
            return state
        source = step_read(run, state, step)
        if source.epoch not in planned:
            size, count = run.config.train.batch_size, run.steps_per_epoch * each
            planned[source.epoch] = await run.bench.batches(source.epoch, count, size)
        first = (source.step - 1) % run.steps_per_epoch * each
        batches = planned[source.epoch][first : first + each]
        state = await take_step(run, state, batches, StepRef(step, epoch), source)
        if state.last_step < step:
            return state
        _publish(run.store, state, folder)
    is_due = state.last_epoch < epoch and state.last_step == last
    if run.config.optimizer.updates_epoch and is_due and can_update(run, state, epoch):
        state = await end_epoch(run, state, epoch)
        _publish(run.store, state, folder)
    return state


async def _before_step(
    run: TrainParts, state: TrainState, folder: RunFolder
) -> tuple[TrainState, bool]:
    """Return the state before a step, and whether patience and the budget allow the step.

    The release of a run with a budget is tested first if a test now is worth more than a later one.
    """
    move, test = "step", run.gate.release
    if run.gate.believes:
        move = next_move(run, state)
        if move == "test" and test is not None:
            state = await release(run, state, test)
            _publish(run.store, state, folder)
            move = next_move(run, state)
    return state, move == "step" and not _is_impatient(run, state)


def _is_impatient(run: TrainParts, state: TrainState) -> bool:
    patience = run.config.train.patience
    return patience is not None and state.idle_steps >= patience


def _report(store: RunStore, state: TrainState) -> TrainReport:
    return TrainReport(
        state=state,
        initial_skill=store.skill(0),
        best_skill=store.skill(state.best_version),
        final_skill=store.skill(state.skill_version),
    )


def _publish(store: RunStore, state: TrainState, folder: RunFolder) -> None:
    """Write the skill files, which the store can restore at any time."""
    for version in store.skills():
        folder.write_skill_version(version.version, store.skill(version.version))
    folder.write_best_skill(store.skill(state.best_version))
    if state.two_levels:
        folder.write_current_skill(store.skill(state.skill_version), state.release_text)


def _introduce(run: TrainParts, state: TrainState, folder: RunFolder) -> None:
    config, sizes, todo = run.config, run.bench.sizes, state.last_step + 1
    val, test = ("all" if size is None else str(size) for size in (sizes.val, sizes.test))
    kept = config.evaluation.confirm_tasks
    run.callback.on_event(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            llms={"target": run.bench.target_identity, "optimizer": run.calls.identity},
            facts=(
                f"{config.env.name}: {sizes.train} train, {val} val, {test} sealed test tasks"
                + (f", {kept} kept to confirm" if kept else ""),
                *filter(None, [clusters_line(sizes.val or 0, run.bench.clusters)]),
                f"{run.steps} steps, {config.evaluation.gate.kind} gate",
                *alpha_lines(config.evaluation.gate, config.evaluation.alpha),
                *((mode_of(config).lines[0],) if config.run.parity else ()),
                *injected_lines(run.store),
                *budget_gaps(config),
                *(llm.line() for llm in priced_models(config) if not llm.is_free),
            ),
            steps=run.steps,
            epochs=config.train.epochs,
            episodes=expected_episodes(config, sizes, starts_blank=not run.store.skill(0).strip()),
            resumed_at=todo if state.baseline and todo <= run.steps else None,
        )
    )
    if state.baseline is not None:
        run.callback.on_event(Scored("initial skill", "val", state.baseline.overall, state.hints))

"""An epoch's end: the same tasks under the old and the new skill, and what follows from it."""

from dataclasses import dataclass

from skillwright.core.together import both
from skillwright.jobs.parts.bench import Place
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import EpochEnded
from skillwright.jobs.train.decisions import EpochRecord
from skillwright.jobs.train.judging import Candidate, judge, stop_if_refused, store_candidate
from skillwright.jobs.train.state import Kind, TrainState
from skillwright.jobs.train.wiring import Assembly
from skillwright.rollout import EngineDown
from skillwright.textopt import (
    Comparison,
    EpochContext,
    MetaSkill,
    SlowUpdate,
    SlowUpdateStatus,
    placeholder,
    write_meta_skill,
    write_slow_update,
)
from skillwright.textopt.reflect import INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class LookBack:
    """What the optimiser made of an epoch, before the gate."""

    epoch: int
    slow_update: SlowUpdate | None = None
    meta_skill: MetaSkill | None = None
    comparison: Comparison | None = None

    def details(self) -> dict[str, object]:
        """Return what the store keeps of it, as a JSON object."""
        return {
            "slow_update": self.slow_update.to_dict() if self.slow_update else None,
            "meta_skill_written": self.meta_skill.to_dict() if self.meta_skill else None,
            "drawn": [pair.to_dict() for pair in self.comparison.drawn] if self.comparison else [],
        }

    def refuse_dead_optimiser(self) -> None:
        """Stop where neither memory could be written: a resume writes them."""
        asked = [one for one in (self.slow_update, self.meta_skill) if one and one.prompt_digest]
        failures = [one.fault.failure for one in asked if one.fault]
        lost = [failure for failure in failures if failure.cause in INFRASTRUCTURE]
        if lost and len(lost) == len(asked):
            raise EngineDown(
                f"the look back over epoch {self.epoch} could not ask the optimiser; the latest: "
                f"{lost[-1].message}"
            )

    def record(
        self, state: TrainState, judged: Candidate | None, skill_version: int | None
    ) -> EpochRecord:
        """Return the epoch's record, with what became of the slow update."""
        action = self.slow_update.status.value if self.slow_update else ""
        return EpochRecord(
            epoch=self.epoch,
            steps_ended_with=state.skill_version,
            action=judged.action if judged else action,
            meta_skill=self.meta_skill.content if self.meta_skill else state.meta_skill,
            verdict=judged.verdict if judged else None,
            skill_version=skill_version,
            best_verdict=judged.best_verdict if judged else None,
        )


async def end_epoch(run: Assembly, state: TrainState, epoch: int) -> TrainState:
    """Look back over an epoch, write down what came of it, and return what follows from it.

    Both skills are played on the same tasks. From the pairs a slow update writes guidance that
    looks further than a batch, and a meta skill the optimizer's own notes for the next epoch. The
    first epoch has nothing to look back on; it only notes which skill it ended with.

    Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904). There a slow update enters unmeasured;
    here it passes the gate like any other change, unless the configuration says otherwise.
    """
    place = Place(state.last_step, epoch)
    run.calls.step = place.step  # a run that goes on here has taken no step yet
    found = await _look_back(run, state, epoch)
    stop_if_refused(run)
    found.refuse_dead_optimiser()
    judged = await _judged_update(run, state, found.slow_update, place)
    with run.store.transaction(durable=True):
        version = None
        if judged is not None:
            version = store_candidate(run, state, place, "slow_update", judged)
        record = found.record(state, judged, version)
        state = write_down(run.store, state, Kind.EPOCH, {**record.to_dict(), **found.details()})
    shown = next(iter(record.verdicts), None)
    run.watcher.see(EpochEnded(epoch, record.action, shown))
    return state


async def _judged_update(
    run: Assembly, state: TrainState, update: SlowUpdate | None, place: Place
) -> Candidate | None:
    """Return what becomes of a slow update, or ``None`` where it changes nothing."""
    if update is None or update.candidate == run.store.skill(state.skill_version):
        return None
    if update.status is SlowUpdateStatus.PLACEHOLDER:
        return Candidate(update.candidate, update.status.value)
    if not run.config.optimizer.gate_slow_update:
        return Candidate(update.candidate, "force_accept")
    return await judge(run, state, update.candidate, place)


async def _look_back(run: Assembly, state: TrainState, epoch: int) -> LookBack:
    """Compare the epoch's skill with the one before it, and have both memories written."""
    config, skill = run.config.optimizer, run.store.skill(state.skill_version)
    if epoch == 1:
        is_due = config.use_slow_update and not config.gate_slow_update
        return LookBack(epoch, slow_update=placeholder(skill) if is_due else None)
    previous = run.store.skill(state.epochs[-1].steps_ended_with)
    comparison = await run.bench.compare(previous, skill, epoch)
    seed = run.config.run.seed + epoch
    context = EpochContext(f"e{epoch}", previous, skill, comparison, seed=seed)
    optimizer, limits = run.optimizer, run.settings.limits

    async def guided() -> SlowUpdate | None:
        if not config.use_slow_update:
            return None
        return await write_slow_update(optimizer, context, limits)

    async def noted() -> MetaSkill | None:
        if not config.use_meta_skill:
            return None
        return await write_meta_skill(optimizer, context, state.meta_skill, limits)

    guidance, notes = await both(guided(), noted())
    return LookBack(epoch, guidance, notes, comparison)

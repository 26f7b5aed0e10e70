"""An epoch's end: the same tasks under the old and the new skill, and what follows from it.

    [ play both skills -> pairs ] until there are enough
    slow update: guidance that looks further than a batch -> candidate -> gate
    meta skill: the optimiser's own notes for the next epoch

The first epoch has nothing to look back on; it only notes which skill it ended with.

Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904). There a slow update enters unmeasured; here
it passes the gate like any other change.
"""

from dataclasses import dataclass, replace

from skillwright.core import PlainSkill
from skillwright.core.together import together
from skillwright.evaluation import Verdict
from skillwright.jobs.progress import StageStarted
from skillwright.jobs.state import EpochRecord, TrainState
from skillwright.jobs.wiring import Assembly
from skillwright.textopt import (
    Comparison,
    EpochContext,
    MetaSkill,
    PairPolicy,
    SlowUpdate,
    comparison_specs,
    write_meta_skill,
    write_slow_update,
)


@dataclass(frozen=True, slots=True)
class LookBack:
    """What the optimiser made of an epoch, before the gate.

    Attributes:
        epoch: From 1.
        slow_update: Guidance for the skill, or ``None`` where none was due.
        meta_skill: Notes for the next epoch, or ``None`` where none were due.
        comparison: What both are based on, or ``None``.
    """

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

    def record(
        self, state: TrainState, verdict: Verdict | None, skill_version: int | None
    ) -> EpochRecord:
        """Return the epoch's record, with the gate's judgement of the slow update."""
        action = self.slow_update.status.value if self.slow_update else ""
        if verdict is not None:
            action = "accept_new_best" if verdict.accepted else verdict.decision.value
        return EpochRecord(
            epoch=self.epoch,
            steps_ended_with=state.skill_version,
            action=action,
            meta_skill=self.meta_skill.content if self.meta_skill else state.meta_skill,
            verdict=verdict,
            skill_version=skill_version,
        )


async def look_back(run: Assembly, state: TrainState, epoch: int) -> LookBack:
    """Compare the epoch's skill with the one before it, and have both memories written.

    Raises:
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Nothing but failures came back.
    """
    if epoch == 1:
        return LookBack(epoch)
    config, seed = run.config.optimizer, run.config.run.seed
    previous = run.store.skill(state.epochs[-1].steps_ended_with)
    skill = run.store.skill(state.skill_version)
    comparison = Comparison.plan(
        run.splits.train.tasks,
        wanted=config.slow_update_samples,
        seed=seed,
        epoch=epoch,
        policy=PairPolicy(config.longitudinal_pair_policy),
        success_threshold=run.config.env.success_threshold,
    )
    # Nothing can have changed under one and the same text, so nothing is played to find it.
    is_vain = previous == skill and comparison.policy is PairPolicy.CHANGED
    while comparison.todo and not is_vain:
        specs = comparison_specs(comparison.todo, seed=seed, epoch=epoch)
        run.watcher.see(StageStarted("look back", epoch=epoch, episodes=2 * len(specs)))
        before, after = await together(
            run.engine.run(specs, PlainSkill(text)) for text in (previous, skill)
        )
        comparison = comparison.add(before, after)
    context = EpochContext(f"e{epoch}", previous, skill, comparison, seed=seed + epoch)
    optimizer, limits = run.optimizer, run.settings.limits

    async def guided() -> LookBack:
        if not config.use_slow_update:
            return LookBack(epoch)
        return LookBack(epoch, slow_update=await write_slow_update(optimizer, context, limits))

    async def noted() -> LookBack:
        if not config.use_meta_skill:
            return LookBack(epoch)
        notes = await write_meta_skill(optimizer, context, state.meta_skill, limits)
        return LookBack(epoch, meta_skill=notes)

    guidance, notes = await together((guided(), noted()))
    return replace(guidance, meta_skill=notes.meta_skill, comparison=comparison)

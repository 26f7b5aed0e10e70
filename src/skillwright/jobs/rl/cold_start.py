"""The cold start: the policy is built, and learns from what an expert won, told the same skills."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from skillwright.config.rl_policy import ColdStartSection
from skillwright.core import EpisodeResult, EpisodeSpec, SkillSource, TurnContext
from skillwright.core.action import action_in
from skillwright.core.seeds import derive_seed
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.rl.checkpoints import Checkpoints
from skillwright.jobs.rl.first_bank import base_episodes
from skillwright.jobs.rl.policies import openings, sft_settings, turns_of
from skillwright.jobs.rl.progress import ColdStartEnded, ColdStartStep
from skillwright.jobs.rl.state import RlKind, RlState
from skillwright.jobs.rl.told import Remembered, SometimesNothing
from skillwright.jobs.rl.wiring import Workshop
from skillwright.policy import (
    LossReport,
    PolicyBackend,
    StepReport,
    demonstrations,
    train,
)
from skillwright.rollout import refuse_no_score


async def start_cold(
    run: Workshop, state: RlState, checkpoints: Checkpoints
) -> tuple[PolicyBackend, RlState]:
    """Build the policy and teach it what the expert does; done already, return it as it began.

    What it is then becomes the reference of the divergence.
    """
    if state.cold_start is not None and state.policy is not None:
        return run.maker.make(state.policy), state
    shown, told = await _demonstrations(run, state)
    if state.policy is None:
        turns = await _turns(run, shown, told) if run.maker.needs_turns else []
        state = write_down(run.store, state, RlKind.POLICY, run.maker.recipe(turns))
    policy = run.maker.make(state.policy or {})
    facts: dict[str, Any] = {}
    if run.config.cold_start is not None:
        results = [_as_command(one) for one in shown] if run.maker.chooses else list(shown)
        facts = _teach(run, policy, results, told)
    facts["reference"] = policy.freeze_reference()
    facts["policy"] = policy.identity
    checkpoints.save(policy, 0, state.first_version)
    return policy, write_down(run.store, state, RlKind.COLD_START, facts)


async def _demonstrations(run: Workshop, state: RlState) -> tuple[list[EpisodeResult], SkillSource]:
    """Let the expert act, told what the policy will be told, and sometimes nothing."""
    source = run.source(state.first_version)
    section = run.config.cold_start
    if section is None:
        return [], source
    seed = run.config.run.seed
    luck = derive_seed("cold start", seed)
    told = Remembered(SometimesNothing(source, section.without_skills, luck))
    specs = _specs(run, section)
    run.watcher.see(StageStarted("expert", episodes=len(specs)))
    results = await run.mind_engine("expert").run(specs, told)
    refuse_no_score(results)
    return results, told


def _specs(run: Workshop, section: ColdStartSection) -> list[EpisodeSpec]:
    seed = run.config.run.seed
    return [
        EpisodeSpec(task, derive_seed("expert", seed, task.id, draw), draw, "expert")
        for task in run.tasks.practice[: section.tasks]
        for draw in range(section.episodes)
    ]


async def _turns(
    run: Workshop, shown: Sequence[EpisodeResult], told: SkillSource
) -> list[TurnContext]:
    """Return turns that hold the words of the tasks, of the places, and of what is told."""
    if shown:
        return turns_of(shown, told)
    tasks = run.tasks.practice
    found = await openings(tasks, run.make_env)
    found = [
        replace(turn, skill=context.text)
        for turn, context in zip(found, told.contexts(tasks), strict=True)
    ]
    if run.config.distil is not None and run.config.bank.told != "nothing":
        found += turns_of(await base_episodes(run), None)
    return found


def _as_command(result: EpisodeResult) -> EpisodeResult:
    """Leave of each answer the command that stands in it, where the environment lists it.

    A policy that chooses from a list says nothing around its choice, and could not imitate it.
    """
    told = result.trajectory
    offered = [told.metadata, *(turn.metadata for turn in told.turns)]
    turns = []
    for turn, before in zip(told.turns, offered, strict=False):
        command = action_in(turn.act.text)
        if command in (before.get("admissible_commands") or ()):
            turn = replace(turn, act=replace(turn.act, text=command))
        turns.append(turn)
    return replace(result, trajectory=replace(told, turns=tuple(turns)))


def _teach(
    run: Workshop, policy: PolicyBackend, results: Sequence[EpisodeResult], told: SkillSource
) -> dict[str, Any]:
    settings = sft_settings(run.config)
    rows, coverage = demonstrations(
        policy, results, told, threshold=run.config.env.success_threshold
    )
    run.watcher.see(StageStarted("cold start"))

    def on_step(step: int, loss: LossReport, report: StepReport) -> None:
        run.watcher.see(ColdStartStep(step, settings.steps, loss.surprise, report.grad_norm))

    seed = derive_seed("cold start", run.config.run.seed)
    done = train(policy, rows, settings, seed=seed, on_step=on_step)
    first, last = done.losses[0].surprise, done.losses[-1].surprise
    run.watcher.see(ColdStartEnded(coverage.episodes, coverage.wins, coverage.rows, last))
    return {
        "coverage": asdict(coverage) | {"citation_rate": coverage.citation_rate},
        "steps": len(done.steps),
        "skipped": done.skipped_steps,
        "surprise": [first, last],
    }

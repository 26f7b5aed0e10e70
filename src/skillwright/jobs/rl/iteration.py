"""One iteration: groups of rollouts under the same skills, compared, and learnt from."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from skillwright.bank import CountedEpisode
from skillwright.core import EpisodeResult, EpisodeSpec, SkillContext, Task
from skillwright.core.seeds import derive_seed
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.rl.policies import group_settings, grpo_settings
from skillwright.jobs.rl.progress import IterationEnded
from skillwright.jobs.rl.state import IterationRecord, RlState
from skillwright.jobs.rl.tasks import again_tasks, harder_tasks, tasks_of_iteration
from skillwright.jobs.rl.told import Remembered
from skillwright.jobs.rl.wiring import Workshop
from skillwright.policy import (
    GroupReport,
    PolicyAgent,
    PolicyBackend,
    Schedule,
    SkillDropout,
    UpdateReport,
    check_reference,
    teach,
    update,
)
from skillwright.rollout import refuse_no_score


async def practise(
    run: Workshop, state: RlState, policy: PolicyBackend, iteration: int, bank_version: int
) -> IterationEnded:
    """Play an iteration and learn from it; the policy is another one afterwards."""
    section, seed = run.config.grpo, run.config.run.seed
    if section.kl_weight > 0:
        check_reference(policy, state.reference)
    tasks = _tasks(run, state, iteration)
    bank = run.bank_store.load(bank_version)
    luck = derive_seed("dropout", seed, iteration)
    whole = run.teller.source(bank)
    told = Remembered(SkillDropout(whole, section.skill_dropout, seed=luck))
    agent = PolicyAgent(policy, section.temperature)
    specs = [
        EpisodeSpec(
            task, derive_seed("grpo", seed, iteration, task.id, draw), draw, "grpo", iteration
        )
        for task in tasks
        for draw in range(section.group_size)
    ]
    run.watcher.see(StageStarted("practice", step=iteration, episodes=len(specs)))
    started = time.monotonic()
    results = await run.training_engine(agent).run(specs, told)
    refuse_no_score(results)
    rolled_out = time.monotonic()
    rows, groups = teach(results, agent.rows, group_settings(section))
    schedule = Schedule(**section.schedule.model_dump())
    rate = schedule.rate(section.learning_rate, iteration - 1, section.iterations)
    luck = derive_seed("update", seed, iteration)
    report = update(policy, rows, grpo_settings(section), seed=luck, learning_rate=rate)
    contexts = told.contexts(tasks)
    _count(run, results, tasks, contexts)
    summary = _summary(results, run.config.env.success_threshold)
    record = IterationRecord(
        iteration=iteration,
        bank_version=bank_version,
        **summary,
        **_learnt(groups, report),
        rows=len(rows),
        learning_rate=rate,
        skills=fmean(len(one.skill_ids) for one in contexts),
        told=_told(contexts, section.group_size),
        won=_won(results, run.config.env.success_threshold),
    )
    return IterationEnded(record, rolled_out - started, time.monotonic() - rolled_out)


def _tasks(run: Workshop, state: RlState, iteration: int) -> list[Task]:
    section, seed = run.config.grpo, run.config.run.seed
    count, practice = section.tasks_per_iteration, run.tasks.practice
    if section.harder:
        chosen = harder_tasks(practice, iteration, count, seed, state.win_rates(iteration))
    else:
        chosen = tasks_of_iteration(practice, iteration, count, seed)
    most = int(count * section.again)
    again = again_tasks(practice, iteration, most, seed, set(state.undecided(iteration)))
    chosen = (*again, *(task for task in chosen if task not in again))[:count]
    # A group is compared in one and the same world, whose luck would else be each episode's own.
    return [
        replace(
            task, extras={"seed": derive_seed("world", seed, iteration, task.id), **task.extras}
        )
        for task in chosen
    ]


def _count(
    run: Workshop,
    results: Sequence[EpisodeResult],
    tasks: Sequence[Task],
    contexts: Sequence[SkillContext],
) -> None:
    """Count which skills episodes were told, and how these ended; each episode once."""
    if not run.bank_store.newest:
        return
    threshold = run.config.env.success_threshold
    told = {task.id: one.skill_ids for task, one in zip(tasks, contexts, strict=True)}
    run.bank_store.count(
        CountedEpisode(
            key=one.key,
            skill_ids=told[one.task_id],
            won=None if one.reward is None else one.is_success(threshold),
        )
        for one in results
    )


def _summary(results: Sequence[EpisodeResult], threshold: float) -> dict[str, Any]:
    scored = [one for one in results if one.reward is not None]
    families: defaultdict[str, list[bool]] = defaultdict(list)
    for one in scored:
        families[one.task_type].append(one.is_success(threshold))
    turns = [len(one.trajectory.turns) for one in scored]
    tokens = [sum(len(turn.act.token_ids or ()) for turn in one.trajectory.turns) for one in scored]
    return {
        "episodes": len(scored),
        "reward": fmean(one.reward for one in scored if one.reward is not None),
        "success": fmean(one.is_success(threshold) for one in scored),
        "families": {name: (sum(won), len(won)) for name, won in sorted(families.items())},
        "turns": fmean(turns),
        "tokens": fmean(tokens),
    }


def _learnt(groups: GroupReport, report: UpdateReport) -> dict[str, Any]:
    total = report.total()
    norms = [step.grad_norm for step in report.steps if not step.skipped]
    return {
        "groups": groups.groups,
        "flat": groups.flat,
        "lone": groups.lone,
        "failures": groups.failures,
        "truncated": groups.truncated,
        "malformed": groups.malformed,
        "steps": len(report.steps),
        "skipped": report.skipped_steps,
        "loss": _finite(total.loss / len(report.steps) if report.steps else 0.0),
        "kl": _finite(total.kl),
        "entropy": _finite(total.entropy),
        "clip_fraction": total.clip_fraction,
        "drift": _finite(total.drift_max),
        "grad_norm": _finite(fmean(norms)) if norms else None,
    }


def _told(contexts: Sequence[SkillContext], group_size: int) -> dict[str, int]:
    counts = Counter(skill_id for one in contexts for skill_id in one.skill_ids)
    return {skill_id: counts[skill_id] * group_size for skill_id in sorted(counts)}


def _won(results: Sequence[EpisodeResult], threshold: float) -> dict[str, float]:
    groups: defaultdict[str, list[bool]] = defaultdict(list)
    for one in results:
        if one.reward is not None:
            groups[one.task_id].append(one.is_success(threshold))
    return {task_id: fmean(won) for task_id, won in sorted(groups.items())}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

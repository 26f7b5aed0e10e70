"""The recipe: train a policy and a skill bank together, then test both.

    base trajectories -> distilled bank
    expert, with the bank's skills -> solved episodes -> cold start: the reference
    [ groups of rollouts with the same skills -> advantages -> update
      every m iterations, optional: gate -> rejected weights are rolled back
      every n iterations: failures of the evolution split -> teacher -> gate -> next bank
      every k iterations: val ] x iterations
    release test: the selected policy and its bank against the cold start and the first bank
    optional: skills distilled into the weights -> release test -> skills retired
    test, opened once: cold start, selected policy, and the controls

Decisions are in the run's store, weights in its checkpoints, and the bank in its own file. A killed
run resumes at the latest checkpoint, and plays the iterations after it again with equal results.

Source: SkillRL (arXiv 2602.08234).
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from skillwright.bank import CountedEpisode, count_skills, to_markdown
from skillwright.config.rl import ColdStartSection, RlConfig
from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    SkillContext,
    SkillSource,
    Task,
    TurnContext,
)
from skillwright.core.jsonio import write_text
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import Draws
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run import RunStarted, StageStarted, make_env
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.resume import refuse_other_tasks, write_down
from skillwright.jobs.weights.bank import base_episodes, evolve_bank, make_first_bank
from skillwright.jobs.weights.demonstrations import CHATS, as_read, chat_rows, episodes_of_run
from skillwright.jobs.weights.estimate import expected_episodes, retirement_text
from skillwright.jobs.weights.injected import Remembered, SometimesNothing
from skillwright.jobs.weights.internalize import internalize
from skillwright.jobs.weights.machine import slow_precision
from skillwright.jobs.weights.state import (
    CANDIDATE,
    START,
    TIMING,
    ColdStartEnded,
    IterationEnded,
    IterationRecord,
    RlReport,
    RlState,
    restore,
    selected,
)
from skillwright.jobs.weights.tasks import (
    again_tasks,
    harder_tasks,
    other_tasks,
    tasks_of_iteration,
)
from skillwright.jobs.weights.validation import (
    Checkpoints,
    Version,
    WeightsDuel,
    open_sealed,
    release,
    validate,
)
from skillwright.jobs.weights.verdicts import PolicyJudged, PolicyStepRecord
from skillwright.jobs.weights.wiring import (
    RlParts,
    as_commands,
    group_settings,
    grpo_settings,
    openings,
    turns_of,
)
from skillwright.policy import (
    GroupReport,
    PolicyAgent,
    PolicyBackend,
    Row,
    UpdateReport,
    check_reference,
    demonstrations,
    teach,
    update,
)
from skillwright.rollout import refuse_no_score
from skillwright.runs import RunFolder, VerdictRecord


async def rl(run: RlParts, folder: RunFolder) -> RlReport:
    """Run the recipe, or resume it."""
    refuse_other_tasks(run.store, run.tasks.facts)
    state = restore(run.config, run.store)
    checkpoints = Checkpoints(run.store.folder / "checkpoints", run.bank_store)
    _introduce(run, state, folder, checkpoints)
    run, state = await make_first_bank(run, state)
    policy, state = await start_cold(run, state, checkpoints)
    state = await _train(run, state, policy, checkpoints)
    state = await release(run, state, policy, checkpoints)
    state = await internalize(run, state, policy, checkpoints)
    state = await open_sealed(run, state, policy, checkpoints)
    _publish(run, state)
    state = write_down(run.store, state, RlKind.FINISHED, {})
    return RlReport(state, selected(run.config, state))


def _introduce(run: RlParts, state: RlState, folder: RunFolder, checkpoints: Checkpoints) -> None:
    config, tasks, last = run.config, run.tasks, state.last_iteration
    saved = max((one for one in checkpoints.iterations if one <= last), default=0)
    resumes = state.cold_start is not None and last < config.grpo.iterations
    lost = f"iterations {saved + 1} to {last} are played again: weights were saved after {saved}"
    evolution = len(tasks.evolution.tasks) if tasks.evolution else 0
    bank = count_skills(run.bank_store.load())
    names = {role: llm.identity for role, llm in run.llms.items()}
    iterations = config.grpo.iterations
    run.callback.on_event(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            llms={"policy": config.policy.label, **names},
            facts=(
                f"{config.env.name}: {len(tasks.training)} tasks to train on, {len(tasks.base)} "
                f"for base trajectories, {evolution} of the evolution split, {len(tasks.val)} val, "
                f"{len(tasks.splits.test)} sealed test tasks",
                f"{iterations} iterations of {config.grpo.tasks_per_iteration} x "
                f"{config.grpo.group_size} episodes; {config.evaluation.gate.kind} gate for the "
                "bank",
                *_judged(config, len(tasks.val)),
                *_loss(config),
                *([f"bank: {bank.headline}"] if bank.total else []),
                *([slow] if (slow := slow_precision(config)) else []),
                *([lost] if resumes and saved < last else []),
            ),
            steps=iterations,
            episodes=max(expected_episodes(config, tasks) - run.store.counts()["episodes"], 0),
            resumed_at=saved + 1 if resumes else None,
        )
    )


def _judged(config: RlConfig, val: int) -> list[str]:
    every, steps = config.grpo.gate_every, config.policy_steps
    said = [f"the gate judges the weights {steps} times, every {every} iterations"] if steps else []
    return said + ([retirement_text(config, val)] if config.internalize else [])


def _loss(config: RlConfig) -> list[str]:
    """Describe a loss that is not the default one, and which of its settings ``grpo`` overrides."""
    own = ", ".join(f"grpo.{name} {value:g}" for name, value in config.own_terms.items())
    wins = f"; {own} instead of the recipe's" if own else ""
    cap = f"; importance weights up to {config.tis_cap:g}" if config.tis_cap else ""
    if rounds := config.recipe.dynamic_sampling:
        cap += f"; up to {rounds} extra rounds an iteration, not in the estimate"
    name = config.policy.recipe
    return [f"loss of recipe {name}{wins}{cap}"] if name != "skillrl" or own or cap else []


async def start_cold(
    run: RlParts, state: RlState, checkpoints: Checkpoints
) -> tuple[PolicyBackend, RlState]:
    """Build the policy and train it on the expert's episodes; its weights are the reference.

    Where that is done, return the untrained policy; a checkpoint is loaded later.
    """
    if state.cold_start is not None and state.policy is not None:
        return run.maker.make(state.policy), state
    shown, skills = await _demonstrations(run, state)
    if state.policy is None:
        turns = await _turns(run, shown, skills) if run.maker.needs_turns else []
        state = write_down(run.store, state, RlKind.POLICY, run.maker.recipe(turns))
    policy = run.maker.make(state.policy or {})
    if run.config.evaluation.baseline == "start":
        checkpoints.save(policy, START, state.first_version)
        state = await validate(run, state, policy, START)
    facts: dict[str, Any] = {}
    if run.config.cold_start is not None:
        results = as_commands(shown) if run.maker.chooses else list(shown)
        facts = _teach(run, policy, results, skills)
    # A reference takes as much memory as the weights, so it is only kept if it is used.
    compares = run.config.recipe.kl_weight > 0 and run.config.grpo.iterations > 0
    facts["reference"] = policy.freeze_reference() if compares else ""
    facts["policy"] = policy.identity
    checkpoints.save(policy, 0, state.first_version)
    return policy, write_down(run.store, state, RlKind.COLD_START, facts)


async def _demonstrations(run: RlParts, state: RlState) -> tuple[list[EpisodeResult], SkillSource]:
    """Return the expert's episodes, and the skills in their prompts as the policy reads them."""
    source = run.source(state.first_version)
    section = run.config.cold_start
    if section is None:
        return [], source
    seed = run.config.run.seed
    drawn = derive_seed("cold start", seed)
    read = Remembered(SometimesNothing(source, section.without_skills, drawn))
    if section.demonstrations:
        return as_read(_known_episodes(run, section), read), read
    given = read
    if section.expert_reads == "skills":
        whole = run.injector.whole(run.bank_store.load(state.first_version))
        given = Remembered(SometimesNothing(whole, section.without_skills, drawn))
    tasks, engine = run.tasks.training[: section.tasks], run.model_engine("expert")
    results = await run.play("expert", tasks, section.episodes, engine, given)
    return (results if given is read else as_read(results, read)), read


def _known_episodes(run: RlParts, section: ColdStartSection) -> list[EpisodeResult]:
    """Return the episodes of another run; chats have none."""
    if section.demonstrations.endswith(CHATS):
        return []
    return episodes_of_run(
        section.demonstrations,
        run.config.run.root,
        run.tasks.training[: section.tasks],
        run.config.env.success_threshold,
    )


async def _turns(
    run: RlParts, shown: Sequence[EpisodeResult], skills: SkillSource
) -> list[TurnContext]:
    """Return turns with the words of tasks and skills, for the vocabulary of a scorer."""
    if shown:
        return turns_of(shown, skills)
    tasks = run.tasks.training
    found = await openings(tasks, make_env(run.config.env))
    found = [
        replace(turn, skill=context.text)
        for turn, context in zip(found, skills.contexts(tasks), strict=True)
    ]
    if run.config.distill is not None and run.config.bank.inject != "none":
        found += turns_of(await base_episodes(run), None)
    return found


def _teach(
    run: RlParts, policy: PolicyBackend, results: Sequence[EpisodeResult], skills: SkillSource
) -> dict[str, Any]:
    section = run.config.cold_start
    if section is not None and section.demonstrations.endswith(CHATS):
        rows, coverage = chat_rows(policy, Path(section.demonstrations))
    else:
        threshold = run.config.env.success_threshold
        rows, coverage = demonstrations(policy, results, skills, threshold=threshold)
    run.callback.on_event(StageStarted("cold start"))
    done = run.learn(policy, rows, section, "cold start")
    first, last = done.losses[0].surprise, done.losses[-1].surprise
    run.callback.on_event(ColdStartEnded(coverage.episodes, coverage.wins, coverage.rows, last))
    return {
        "coverage": asdict(coverage) | {"citation_rate": coverage.citation_rate},
        "steps": len(done.steps),
        "skipped": done.skipped_steps,
        "surprise": [first, last],
    }


async def _train(
    run: RlParts, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Run the remaining iterations, from the latest checkpoint."""
    section, evolve, last = run.config.grpo, run.config.evolve, run.config.grpo.iterations
    done = checkpoints.latest(policy, last)
    if not done:
        state = await validate(run, state, policy, 0)
    for iteration in range(done + 1, last + 1):
        version = state.version_after(iteration - 1)
        ended = await train_on(run, state, policy, iteration, version)
        state = _note(run, state, ended)
        steps = ends_policy_step(run, iteration)
        if steps:
            state = await judge_policy(run, state, policy, iteration, checkpoints)
        evolves = evolve is not None and iteration % evolve.every == 0
        if evolves and iteration not in state.evolutions:
            state = await evolve_bank(run, state, policy, iteration)
        validates = iteration % run.config.evaluation.val_every == 0 or iteration == last
        if validates:
            state = await validate(run, state, policy, iteration)
        if steps or evolves or validates or iteration % section.checkpoint_every == 0:
            checkpoints.save(policy, iteration, state.version_after(iteration))
            checkpoints.prune(state, iteration)
    return state


def _note(run: RlParts, state: RlState, ended: IterationEnded) -> RlState:
    """Record an iteration, unless the store has it."""
    record = ended.record
    run.callback.on_event(ended)
    if state.iterations.get(record.iteration) == record:
        return state
    timing = {"rollout_s": ended.rollout_s, "learning_s": ended.learning_s}
    return write_down(run.store, state, RlKind.ITERATION, {**record.to_dict(), TIMING: timing})


async def train_on(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, bank_version: int
) -> IterationEnded:
    """Play the rollouts of an iteration and update the policy."""
    section, seed = run.config.grpo, run.config.run.seed
    if run.config.recipe.kl_weight > 0:
        check_reference(policy, state.reference)
    bank = run.bank_store.load(bank_version)
    skills = Remembered(run.injector.source(bank))
    started = time.monotonic()
    tasks, results, rows, groups = await _rollouts(run, state, policy, iteration, skills)
    rolled_out = time.monotonic()
    rate = section.schedule.rate(section.learning_rate, iteration - 1, section.iterations)
    dealing = derive_seed("update", seed, iteration)
    report = update(policy, rows, grpo_settings(run.config), seed=dealing, learning_rate=rate)
    contexts = skills.contexts(tasks)
    _count(run, results, tasks, contexts)
    summary = _summary(results, run.config.env.success_threshold)
    record = IterationRecord(
        iteration=iteration,
        bank_version=bank_version,
        **summary,
        **_learned(groups, report),
        rows=len(rows),
        extra=max(0, len(tasks) - section.tasks_per_iteration) * section.group_size,
        learning_rate=rate,
        skills=fmean(len(one.skill_ids) for one in contexts),
        injected=_injected(contexts, section.group_size),
        solved=_solved(results, run.config.env.success_threshold),
    )
    return IterationEnded(record, rolled_out - started, time.monotonic() - rolled_out)


async def _rollouts(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, skills: SkillSource
) -> tuple[list[Task], list[EpisodeResult], list[Row], GroupReport]:
    """Play the groups of an iteration.

    Dynamic sampling plays others in place of groups without variance, for a maximum number of
    rounds (source: DAPO, arXiv:2503.14476).
    """
    section, seed = run.config.grpo, run.config.run.seed
    agent = PolicyAgent(policy, section.temperature)
    fresh, tasks, results = _tasks(run, state, iteration), list[Task](), list[EpisodeResult]()
    wanted = len(fresh)
    for left in range(run.config.recipe.dynamic_sampling, -1, -1):
        specs = [
            EpisodeSpec(
                task, derive_seed("grpo", seed, iteration, task.id, draw), draw, "grpo", iteration
            )
            for task in fresh
            for draw in range(section.group_size)
        ]
        run.callback.on_event(StageStarted("rollouts", step=iteration, episodes=len(specs)))
        results += await run.training_engine(agent).run(specs, skills)
        tasks += fresh
        refuse_no_score(results)
        rows, groups = teach(results, agent.rows, group_settings(run.config))
        others = other_tasks(run.tasks.training, iteration, seed, {task.id for task in tasks})
        fresh = _in_one_world(others[: wanted - groups.useful], iteration, seed)
        if not left or not fresh:
            break
    return tasks, results, rows, groups


def _tasks(run: RlParts, state: RlState, iteration: int) -> list[Task]:
    section, seed = run.config.grpo, run.config.run.seed
    count, tasks = section.tasks_per_iteration, run.tasks.training
    if section.harder:
        chosen = harder_tasks(tasks, iteration, count, seed, state.success_rates(iteration))
    else:
        chosen = tasks_of_iteration(tasks, iteration, count, seed)
    most = int(count * section.again)
    again = again_tasks(tasks, iteration, most, seed, set(state.undecided(iteration)))
    chosen = (*again, *(task for task in chosen if task not in again))[:count]
    return _in_one_world(chosen, iteration, seed)


def _in_one_world(tasks: Sequence[Task], iteration: int, seed: int) -> list[Task]:
    """Seed the world of each task, which the episodes of a group share."""
    return [
        replace(
            task, extras={"seed": derive_seed("world", seed, iteration, task.id), **task.extras}
        )
        for task in tasks
    ]


def _count(
    run: RlParts,
    results: Sequence[EpisodeResult],
    tasks: Sequence[Task],
    contexts: Sequence[SkillContext],
) -> None:
    """Count the skills of each episode and its outcome in the bank, once."""
    if not run.bank_store.newest:
        return
    threshold = run.config.env.success_threshold
    injected = {task.id: one.skill_ids for task, one in zip(tasks, contexts, strict=True)}
    run.bank_store.count(
        CountedEpisode(
            key=one.key,
            skill_ids=injected[one.task_id],
            solved=None if one.reward is None else one.is_success(threshold),
        )
        for one in results
    )


def _summary(results: Sequence[EpisodeResult], threshold: float) -> dict[str, Any]:
    scored = [one for one in results if one.reward is not None]
    task_types: defaultdict[str, list[bool]] = defaultdict(list)
    for one in scored:
        task_types[one.task_type].append(one.is_success(threshold))
    by_type = {name: (sum(one), len(one)) for name, one in sorted(task_types.items())}
    turns = [len(one.trajectory.turns) for one in scored]
    tokens = [sum(len(turn.act.token_ids or ()) for turn in one.trajectory.turns) for one in scored]
    return {
        "episodes": len(scored),
        "reward": fmean(one.reward for one in scored if one.reward is not None),
        "success": fmean(one.is_success(threshold) for one in scored),
        "task_types": by_type,
        "turns": fmean(turns),
        "tokens": fmean(tokens),
    }


_GROUP_COUNTS = ("groups", "zero_variance", "lone", "failures", "truncated", "malformed")


def _learned(groups: GroupReport, report: UpdateReport) -> dict[str, Any]:
    total = report.total()
    norms = [step.grad_norm for step in report.steps if not step.skipped]
    return {
        **{name: getattr(groups, name) for name in _GROUP_COUNTS},
        "steps": len(report.steps),
        "skipped": report.skipped_steps,
        "loss": _finite(total.loss / len(report.steps) if report.steps else 0.0),
        "kl": _finite(total.kl),
        "entropy": _finite(total.entropy),
        "clip_fraction": total.clip_fraction,
        "drift": _finite(total.drift_max),
        "sampler_gap": _finite(total.sampler_gap),
        "capped": total.capped_share,
        "grad_norm": _finite(fmean(norms)) if norms else None,
    }


def _injected(contexts: Sequence[SkillContext], group_size: int) -> dict[str, int]:
    counts = Counter(skill_id for one in contexts for skill_id in one.skill_ids)
    return {skill_id: counts[skill_id] * group_size for skill_id in sorted(counts)}


def _solved(results: Sequence[EpisodeResult], threshold: float) -> dict[str, float]:
    groups: defaultdict[str, list[bool]] = defaultdict(list)
    for one in results:
        if one.reward is not None:
            groups[one.task_id].append(one.is_success(threshold))
    return {task_id: fmean(one) for task_id, one in sorted(groups.items())}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _publish(run: RlParts, state: RlState) -> None:
    """Write the released bank as ``skills.md``."""
    report = RlReport(state, selected(run.config, state))
    bank = run.bank_store.load(report.bank_version)
    write_text(run.bank_store.path.with_name("skills.md"), to_markdown(bank))


ORIGIN = "policy"
"""The origin of its verdicts."""


def ends_policy_step(run: RlParts, iteration: int) -> bool:
    """Whether an iteration is the last of a policy step."""
    every = run.config.grpo.gate_every
    return every is not None and (iteration % every == 0 or iteration == run.config.grpo.iterations)


async def judge_policy(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, checkpoints: Checkpoints
) -> RlState:
    """Judge the weights by the gate, unless this was done; roll rejected weights back.

    Both sides get the skills of the latest iteration. After each accepted change, the gate takes
    fresh draws.
    """
    if iteration not in state.policy_steps:
        state = await _judge(run, state, policy, iteration, checkpoints)
    record = state.policy_steps[iteration]
    if not record.verdict.accepted:
        checkpoints.load(policy, record.since)
    checkpoints.path(CANDIDATE).unlink(missing_ok=True)
    return state


async def _judge(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, checkpoints: Checkpoints
) -> RlState:
    gate, version = run.config.evaluation.gate, state.version_after(iteration - 1)
    since = state.last_policy_step
    checkpoints.save(policy, CANDIDATE, version)
    candidate = policy.identity
    expected = gate.expected_rollouts(len(run.tasks.val))
    run.callback.on_event(StageStarted("policy gate", step=iteration, episodes=expected))
    skills = run.source(version)
    sides = Version(since, skills), Version(CANDIDATE, skills)
    draws = Draws(run.config.run.seed, first=1 + state.accepts * gate.draws, step=iteration)
    duel = WeightsDuel(run, policy, checkpoints, sides, draws)
    verdict = await gate.judge(duel, state.ledger, terms_of(run.config, run.tasks.clusters))
    before = _identity_after(state, since)
    record = PolicyStepRecord(iteration, since, version, before, candidate, verdict)
    with run.store.transaction(durable=True):
        said = verdict.to_dict()
        run.store.record_verdict(VerdictRecord(iteration, said, candidate, ORIGIN))
        state = write_down(run.store, state, RlKind.POLICY_STEP, record.to_dict())
    run.callback.on_event(PolicyJudged(record))
    return state


def _identity_after(state: RlState, iteration: int) -> str:
    """Return the identity of the weights after a policy step; 0 is the cold start."""
    step = state.policy_steps.get(iteration)
    if step is not None:
        return step.candidate if step.verdict.accepted else step.before
    return str((state.cold_start or {}).get("policy", ""))

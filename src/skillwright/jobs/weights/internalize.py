"""Distill skills into the weights, and retire them if the weights are proven to do without.

    skills, on train tasks that get them -> episodes that are solved with them
    the same episodes without the skills in the prompt -> supervised steps -> candidate
    release test on val: candidate without the skills against the released weights with them

The candidate may lose less than a margin. Where that is not proven, bank and weights stay.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.bank import Bank
from skillwright.config.load import load_rl_config
from skillwright.config.rl import InternalizeSection, RlConfig, validated_rl
from skillwright.core import BankSkill, ConfigError, EpisodeResult, SkillSource, Task, did_you_mean
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import release_draws
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.progress import StageStarted
from skillwright.jobs.run.resume import write_down
from skillwright.jobs.weights.bank import bank_without
from skillwright.jobs.weights.demonstrations import as_read
from skillwright.jobs.weights.injected import Remembered
from skillwright.jobs.weights.starting_weights import released_bank, run_weights
from skillwright.jobs.weights.state import INTERNALIZED, RlReport, RlState, selected
from skillwright.jobs.weights.validation import Checkpoints, Version, WeightsDuel
from skillwright.jobs.weights.verdicts import InternalizedRecord, SkillsInternalized
from skillwright.jobs.weights.wiring import RlParts, as_commands
from skillwright.policy import PolicyBackend, demonstrations
from skillwright.runs import VerdictRecord
from skillwright.runs.folder import CONFIG_NAME


def internalizing(
    run: str | Path,
    root: str | Path = "runs",
    skills: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> RlConfig:
    """Return a configuration that distills skills of a finished run into its released weights.

    The new run begins with the released policy and bank, and does nothing else.

    Args:
        run: Its folder, its name below ``root``, or ``latest``.
        root: The folder that holds runs.
        skills: Ids, categories or places; none means ``internalize.skills``.
        overrides: ``internalize.steps=600`` and its like, laid over the run's configuration.

    Raises:
        RunError: There is no such run.
        ConfigError: It trained no weights, is not finished, or its bank has no such skill.
    """
    path = run_weights(run, root).path
    config = load_rl_config(path / CONFIG_NAME, overrides)
    section = config.internalize or InternalizeSection()
    if skills:
        section = section.model_copy(update={"skills": list(skills)})
    choose_skills(released_bank(path), section.skills)
    begun = {"start": str(path)}
    changes: dict[str, dict[str, Any]] = {
        "run": {"name": f"{path.name}-internalized", "root": str(path.parent)},
        "policy": begun,
        "bank": {**begun, "leave_out": []},
        "grpo": {"iterations": 0, "gate_every": None},
        "evaluation": {"baseline": "cold_start"},
    }
    values = config.model_dump(mode="json")
    values |= {name: {**values[name], **change} for name, change in changes.items()}
    values |= {"distill": None, "cold_start": None, "evolve": None}
    values["internalize"] = section.model_dump(mode="json")
    return validated_rl(values, str(path / CONFIG_NAME))


async def internalize(
    run: RlParts, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Distill skills of the released bank into the released weights, and decide what is released.

    Raises:
        ConfigError: ``internalize.skills`` names what the bank does not have.
        EngineDown: No episode has a reward.
    """
    section = run.config.internalize
    if section is None or state.internalized is not None:
        return state
    plan = _plan(run, state, section)
    record = InternalizedRecord(
        base=plan.base,
        before=plan.bank.version,
        version=plan.bank.version,
        action="" if plan.about else "no_task" if plan.skills else "no_skill",
        skills=plan.skills,
        margin=section.margin,
        tasks=(len(plan.about), len(plan.others)),
    )
    if not record.action:
        checkpoints.load(policy, plan.base)
        record = await _distilled(run, section, plan, policy, record)
    if not record.action:
        checkpoints.save(policy, INTERNALIZED, plan.bank.version)
        record = await _tested(run, state, plan, policy, checkpoints, record)
    with run.store.transaction(durable=True):
        if record.verdict is not None:
            said = record.verdict.to_dict()
            step = run.config.grpo.iterations
            run.store.record_verdict(VerdictRecord(step, said, record.candidate, ORIGIN))
        state = write_down(run.store, state, RlKind.INTERNALIZED, record.to_dict())
    run.callback.on_event(SkillsInternalized(record))
    return state


PHASE = ORIGIN = "internalize"
"""The phase of its episodes, and the origin of its verdict."""
RELEASE_TEST = 1
"""The number of its release test, whose draws differ from those of the first test."""


def choose_skills(bank: Bank, named: Sequence[str]) -> tuple[BankSkill, ...]:
    """Return the active skills with these ids, categories or scopes, or all of them.

    Raises:
        ConfigError: A name is none of these.
    """
    if not named:
        return bank.active
    known = {name for one in bank.active for name in (one.id, one.category, one.scope)} - {""}
    for name in named:
        if name not in known:
            raise ConfigError(
                f"internalize.skills names {name!r}, and no active skill of version "
                f"{bank.version} of the bank has this id, category or place. "
                f"{did_you_mean(name, sorted(known))}"
            )
    wanted = set(named)
    return tuple(one for one in bank.active if wanted & {one.id, one.category, one.scope})


@dataclass(frozen=True, slots=True)
class _Plan:
    """The skills to distill, the train tasks that get them, and others to train on too."""

    base: int
    bank: Bank
    skills: tuple[str, ...]
    before: SkillSource
    without: SkillSource
    about: tuple[Task, ...]
    others: tuple[Task, ...]


def _plan(run: RlParts, state: RlState, section: InternalizeSection) -> _Plan:
    report = RlReport(state, selected(run.config, state))
    bank = run.bank_store.load(state.version_after(report.proven))
    skills = tuple(one.id for one in choose_skills(bank, section.skills))
    candidate, _ = bank_without(bank, skills)
    before = Remembered(run.injector.source(bank))
    tasks = run.tasks.training
    with_them = before.contexts(tasks)
    # Asked second, because only the latest bank's index is kept.
    without = Remembered(run.injector.source(candidate))
    differs = {
        task.id
        for task, old, new in zip(tasks, with_them, without.contexts(tasks), strict=True)
        if old.text != new.text
    }
    about = tuple(task for task in tasks if task.id in differs)
    others = [task for task in tasks if task.id not in differs]
    random.Random(derive_seed("internalize", run.config.run.seed)).shuffle(others)
    most = round(len(about) * section.rest / (1 - section.rest))
    return _Plan(report.proven, bank, skills, before, without, about, tuple(others[:most]))


async def _distilled(
    run: RlParts,
    section: InternalizeSection,
    plan: _Plan,
    policy: PolicyBackend,
    record: InternalizedRecord,
) -> InternalizedRecord:
    """Train the policy on solved episodes, with prompts without the skills."""
    played = await _played(run, section, plan, policy)
    commands = as_commands(played) if run.maker.chooses else played
    results = as_read(commands, plan.without)
    threshold = run.config.env.success_threshold
    rows, coverage = demonstrations(policy, results, plan.without, threshold=threshold)
    about = {task.id for task in plan.about}
    solved = sum(one.is_success(threshold) for one in results if one.task_id in about)
    facts = {
        "episodes": coverage.episodes,
        "solved": coverage.wins,
        "solved_with_skills": solved,
        "rows": coverage.rows,
    }
    record = replace(record, coverage=facts)
    if not solved or not rows:
        return replace(record, action="no_success")
    run.callback.on_event(StageStarted("distillation"))
    losses = run.learn(policy, rows, section, "distillation").losses
    surprise = losses[0].surprise, losses[-1].surprise
    return replace(record, surprise=surprise, candidate=policy.identity)


async def _played(
    run: RlParts, section: InternalizeSection, plan: _Plan, policy: PolicyBackend
) -> list[EpisodeResult]:
    if section.by == "expert":
        engine = run.model_engine("expert")
    else:
        engine = run.measuring_engine(policy, run.config.grpo.temperature)
    tasks = (*plan.about, *plan.others)
    return await run.play(PHASE, tasks, section.episodes, engine, plan.before)


async def _tested(
    run: RlParts,
    state: RlState,
    plan: _Plan,
    policy: PolicyBackend,
    checkpoints: Checkpoints,
    record: InternalizedRecord,
) -> InternalizedRecord:
    """Test the candidate without the skills; if it loses less than the margin, retire them."""
    test = run.config.retirement
    if test is None:
        raise ConfigError("internalize is null")
    expected = test.expected_rollouts(len(run.tasks.val))
    run.callback.on_event(StageStarted("retirement test", episodes=expected))
    sides = Version(plan.base, plan.before), Version(INTERNALIZED, plan.without)
    draws = release_draws(run.config.run.seed, RELEASE_TEST, None)
    duel = WeightsDuel(run, policy, checkpoints, sides, draws)
    verdict = await test.judge(duel, state.ledger, terms_of(run.config, run.tasks.clusters))
    version = _log_in_bank(run, plan, replace(record, verdict=verdict))
    if verdict.accepted:
        checkpoints.load(policy, INTERNALIZED)
        checkpoints.save(policy, INTERNALIZED, version)
    return replace(record, verdict=verdict, version=version, action=verdict.decision.value)


def _log_in_bank(run: RlParts, plan: _Plan, record: InternalizedRecord) -> int:
    """Retire the skills, or log that they stay; return the released version of the bank."""
    store, verdict = run.bank_store, record.verdict
    if verdict is None:
        raise ConfigError("there is no verdict")
    reason = f"internalized: {record.candidate} does without"
    said = verdict.to_dict()
    logged = [entry for entry in store.log() if entry.reason.startswith(reason)]
    _, report = bank_without(plan.bank, plan.skills)
    changes = [one.change for one in report.outcomes]
    with store.together():
        if not verdict.accepted:
            if not logged:
                store.reject(changes, reason=f"{reason}? {verdict.reason}", verdict=said)
            return plan.bank.version
        # A process that was killed right after may have retired them already.
        if logged:
            return logged[-1].version
        if store.newest != plan.bank.version:
            store.rollback(plan.bank.version, "what was released is what is changed")
        return store.commit(changes, reason=reason, verdict=said).version

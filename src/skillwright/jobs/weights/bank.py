"""The bank of a run: how it begins, and how it evolves."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skillwright.bank import (
    SEED_BANKS,
    Add,
    Bank,
    ChangeReport,
    Retire,
    category_of,
    compression,
    count_skills,
    refuse_unsafe,
    scope_of,
    seed_bank,
)
from skillwright.bank.changes import apply, nearness
from skillwright.bank.measure import active_by_category
from skillwright.bank.teaching.distill import Distillation, distill
from skillwright.config.rl import RlConfig, RlDistillSection
from skillwright.core import ConfigError, EpisodeResult, PlainSkill, Task
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.bank_source import read_injected_bank
from skillwright.jobs.run.bench import make_env, terms_of
from skillwright.jobs.run.evolution_round import EvolutionLoop, PlayedRound
from skillwright.jobs.run.progress import StageStarted
from skillwright.jobs.run.resources import asked_anew
from skillwright.jobs.run.resume import write_down
from skillwright.jobs.weights.injected import TrajectorySource
from skillwright.jobs.weights.starting_weights import released_bank
from skillwright.jobs.weights.state import BankEvolved, EvolutionRecord, FirstBankMade, RlState
from skillwright.jobs.weights.wiring import RlParts, openings, stop_if_refused
from skillwright.policy import PolicyBackend
from skillwright.runs import VerdictRecord


async def make_first_bank(run: RlParts, state: RlState) -> tuple[RlParts, RlState]:
    """Play base trajectories and distill them into a bank, unless that is done."""
    inject = run.config.bank.inject
    if inject == "trajectories":
        base = await base_episodes(run)
        raw = TrajectorySource.of(
            base, run.config.env.success_threshold, run.config.bank.max_tokens
        )
        run = replace(run, injector=replace(run.injector, raw=raw))
    if state.bank is not None:
        return run, state
    facts: dict[str, Any] = {}
    if run.config.has_bank:
        _begin(run)
        if run.config.distill is not None:
            facts = await _distill(run, run.config.distill, await base_episodes(run))
    version = run.bank_store.newest
    bank = run.bank_store.load(version)
    counts = count_skills(bank)
    known = {"version": version, "digest": bank.digest, "skills": counts.headline}
    state = write_down(run.store, state, RlKind.BANK, {**known, **facts})
    notes = tuple(facts.get("notes", ()))
    run.callback.on_event(FirstBankMade(version, counts.headline, notes))
    return run, state


async def evolve_bank(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int
) -> RlState:
    """Play the evolution split, have the teacher change the bank, and ask the gate.

    Raises:
        EngineDown: No episode of the evolution split has a reward.
        ModelRefused: An endpoint refuses the key or the model.
    """
    section, split = run.config.evolve, run.tasks.evolution
    if section is None or split is None:
        raise ConfigError("evolve is null")
    teacher, gate = run.teacher(f"evolve {iteration}"), run.config.evaluation.gate
    loop = EvolutionLoop(
        engine=lambda: run.measuring_engine(policy, run.config.evaluation.temperature),
        source=run.injector.source,
        tasks=split,
        val=run.tasks.splits.val,
        section=section,
        gate=gate,
        terms=terms_of(run.config, run.tasks.clusters),
        embedder=run.injector.embedder,
        teacher=lambda stage: teacher,
        callback=run.callback,
    )
    bank = run.bank_store.load(state.version_after(iteration - 1))
    earlier = [line for one in state.evolutions.values() for line in one.earlier]
    first_draw = 1 + state.accepts * gate.draws
    played = await loop.take(iteration, bank, state.ledger, earlier, first_draw)
    stop_if_refused(teacher)
    _log_in_bank(run, played)
    record = _record(played)
    with run.store.transaction(durable=True):
        if played.verdict is not None:
            said, candidate = played.verdict.to_dict(), played.candidate.digest
            run.store.record_verdict(VerdictRecord(iteration, said, candidate, "evolution"))
        state = write_down(run.store, state, RlKind.EVOLUTION, record.to_dict())
    run.callback.on_event(BankEvolved(record))
    return state


EMPTY, SEED = "empty", "seed"


async def base_episodes(run: RlParts) -> list[EpisodeResult]:
    """Play the base trajectories without skills; stored ones are not played again."""
    section = run.config.distill
    if section is None:
        raise ConfigError("distill is null, so no base trajectory is played")
    tasks = [_longer(task, section.max_turns) for task in run.tasks.base[: section.tasks]]
    if "base" in run.llms:
        engine = run.model_engine("base", section.max_turns)
    else:
        turns = await openings(tasks, make_env(run.config.env)) if run.maker.needs_turns else []
        backend = run.maker.make(run.maker.recipe(turns))
        engine = run.measuring_engine(backend, 1.0, section.max_turns)
    return await run.play("base", tasks, section.episodes, engine, PlainSkill(""))


def _longer(task: Task, max_turns: int | None) -> Task:
    """Raise a task's own limit of turns to that of the stage."""
    if max_turns is None or "max_turns" not in task.extras:
        return task
    return replace(task, extras={**task.extras, "max_turns": max_turns})


def starting_bank(config: RlConfig) -> Bank:
    """Return the bank that a run begins with, without the categories of ``leave_out``."""
    start = config.bank.start
    if start == EMPTY:
        return Bank()
    if start == SEED and config.env.name not in SEED_BANKS:
        raise ConfigError(
            f"bank.start is 'seed', and there is no seed bank for {config.env.name!r}; there are "
            f"those of {', '.join(SEED_BANKS)}. Begin with 'empty', or name a file"
        )
    if start == SEED:
        bank = seed_bank(config.env.name)
    elif Path(start).is_dir():
        bank = released_bank(start)
    else:
        bank = read_injected_bank(start, "bank.start")
    refuse_unsafe(bank.active, f"bank.start {start!r}")
    left_out = set(config.bank.leave_out)
    kept = replace(bank, skills=tuple(s for s in bank.skills if s.category not in left_out))
    if not kept.active:
        raise ConfigError(
            f"bank.leave_out leaves no active skill of bank.start {start!r}; leave fewer out, or "
            "begin with 'empty'"
        )
    return kept


def _begin(run: RlParts) -> None:
    bank = starting_bank(run.config)
    # A resumed run may have it already.
    if bank.skills and not run.bank_store.newest:
        run.bank_store.adopt(bank, reason=f"begun with {run.config.bank.start}", step=0)


async def _distill(
    run: RlParts, section: RlDistillSection, base: Sequence[EpisodeResult]
) -> dict[str, Any]:
    run.callback.on_event(StageStarted("distill"))
    settings = section.settings(run.config.env.success_threshold, 0)
    teacher = run.teacher("distil")  # seed
    found = await distill(base, teacher, settings, category_of, scope_of)
    stop_if_refused(teacher)
    with asked_anew(teacher.model, found.failures):
        found.refuse_gaps()
    left_out = set(run.config.bank.leave_out)
    changes = [change for change in found.changes if change.draft.category not in left_out]
    reason = f"distilled from {found.report.read} base trajectories"
    if not any(entry.reason == reason for entry in run.bank_store.log()):
        is_near = nearness(run.injector.embedder)
        run.bank_store.commit(changes, reason=reason, step=0, is_near=is_near)
    return _facts(run, found, changes, base)


def _facts(
    run: RlParts, found: Distillation, changes: Sequence[Add], base: Sequence[EpisodeResult]
) -> dict[str, Any]:
    report, threshold = found.report, run.config.env.success_threshold
    trajectories = {one.key: one.trajectory for one in base if one.reward is not None}
    shorter = compression(run.bank_store.load(), trajectories)
    faults = [f"{fault.call}: {fault.failure.message}" for fault in found.failures]
    ratios = {"raw": shorter.raw_ratio, "summaries": shorter.summary_ratio}
    return {
        "episodes": report.episodes,
        "solved": sum(one.is_success(threshold) for one in base),
        "read": report.read,
        "drafts": dict(report.drafts),
        "left_out": len(found.changes) - len(changes),
        "blocked": [
            {"name": one.draft.name, "why": [str(finding) for finding in one.findings]}
            for one in report.blocked
        ],
        "compression": {**asdict(shorter), "ratios": ratios},
        "notes": [*report.notes, *faults],
    }


def bank_without(bank: Bank, ids: Sequence[str]) -> tuple[Bank, ChangeReport]:
    """Retire skills of a bank; also return the outcome of each."""
    return apply(bank, [Retire(one, "the weights do without it") for one in ids])


def _log_in_bank(run: RlParts, played: PlayedRound) -> None:
    verdict, number = played.verdict, played.number
    # A process that was killed right after may have logged it already.
    if verdict is None or any(entry.step == number for entry in run.bank_store.log()):
        return
    said = verdict.to_dict()
    if verdict.accepted:
        reason = f"evolved after iteration {number}"
        run.bank_store.adopt(
            played.candidate, played.report, reason=reason, verdict=said, step=number
        )
    else:
        run.bank_store.reject(
            played.found.changes, reason=verdict.reason, verdict=said, step=number
        )


def _record(played: PlayedRound) -> EvolutionRecord:
    found, report = played.found, played.report
    facts: dict[str, Any] = {}
    if played.action == "accept":
        facts = {"added": report.added, "refined": report.refined, "retired": report.retired}
    faults = tuple(f"{one.call}: {one.failure.message}" for one in found.faults)
    return EvolutionRecord(
        iteration=played.number,
        version=played.after.version,
        before=played.before.version,
        action=played.action,
        success=played.success,
        weakest=found.weakest,
        growth=active_by_category(played.after),
        refused=len(report.refused) + len(found.blocked),
        verdict=played.verdict,
        earlier=played.lines(),
        notes=(*found.notes, *faults),
        **facts,
    )

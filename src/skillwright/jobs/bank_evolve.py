"""Evolve a bank: rounds of play, proposal and gate; each can be stopped and given again."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillwright.bank import (
    Bank,
    BankStore,
    ChangeReport,
    Decision,
    Evolution,
    EvolutionResults,
    bank_duel,
    candidate_sources,
    category_of,
    count_skills,
    evolve,
    scope_of,
    told_change,
)
from skillwright.bank.teaching.teacher import refuse_dead_teacher
from skillwright.core import ConfigError, EpisodeResult, EpisodeSpec
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import AlphaLedger, Draws, Verdict, tasks_needed
from skillwright.jobs.bank_arena import BankArena, bank_arena, nearness
from skillwright.jobs.bank_settings import teacher_of
from skillwright.jobs.bank_use import count_use
from skillwright.jobs.bank_work import bank_work
from skillwright.jobs.config import RunConfig
from skillwright.jobs.launch import known_secrets
from skillwright.jobs.progress import StageStarted, Watcher
from skillwright.jobs.wiring import MakeModel, gate_of
from skillwright.models import is_stand_in, make_model
from skillwright.rollout import refuse_no_score

EVOLVED = "evolved"
"""The event of a round that is over."""


@dataclass(frozen=True, slots=True)
class EvolutionRound:
    """A round, and what came of it.

    Attributes:
        number: From 1, over the life of the bank.
        before: The version that was played with.
        version: The version after it.
        action: ``accept``, ``reject``, ``undecided``, or why there was nothing to judge:
            ``none_weak``, ``no_proposal``, ``nothing_new``.
        success: (wins, episodes) of the evolution split, by category.
        weakest: The category with the lowest success.
        changes: Every change and what became of it, a line each.
        growth: Active skills by category after it; ``""`` holds those of every category.
        blocked: Changes that lint kept out.
        verdict: What the gate said, or ``None`` where it was not asked.
        notes: What was put right in the teacher's reply.
    """

    number: int
    before: int
    version: int
    action: str
    success: Mapping[str, tuple[int, int]]
    weakest: str | None
    changes: tuple[str, ...] = ()
    growth: Mapping[str, int] = field(default_factory=dict)
    blocked: int = 0
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "number": self.number,
            "before": self.before,
            "version": self.version,
            "action": self.action,
            "success": {name: list(pair) for name, pair in self.success.items()},
            "weakest": self.weakest,
            "changes": list(self.changes),
            "growth": dict(self.growth),
            "blocked": self.blocked,
            "verdict": self.verdict.to_dict() if self.verdict else None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class EvolveReport:
    """What the rounds of a command came to.

    Attributes:
        bank: The bank's file.
        rounds: In order.
        skills: What it holds now, as SkillRL counts, with the split.
        is_scripted: A scripted mind took part, which must be said.
    """

    bank: str
    rounds: tuple[EvolutionRound, ...]
    skills: str
    is_scripted: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "bank": self.bank,
            "rounds": [one.to_dict() for one in self.rounds],
            "skills": self.skills,
            "scripted": self.is_scripted,
        }


async def evolve_bank(
    config: RunConfig, bank: Path, rounds: int, watcher: Watcher, make: MakeModel = make_model
) -> EvolveReport:
    """Play the evolution split, have the teacher change the bank, and ask the gate; round by round.

    Args:
        config: What is played by whom, who teaches, and what decides.
        bank: The bank's file, which must hold skills or have been begun.
        rounds: How many, from 1; together they share ``evaluation.alpha``.
        watcher: Sees what happens.
        make: Makes the minds.

    Raises:
        EngineDown: No episode of the evolution split has a reward.
        TeacherDown: The teacher gave nothing usable; the rounds before it are kept.
        UsageError: Something that the configuration names is missing or wrong.
    """
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        bank_store = held.enter_context(BankStore.open(bank))
        arena = await held.enter_async_context(bank_arena(config, store, watcher, make))
        refuse_hopeless(config, len(arena.bench.splits.val.tasks), rounds)
        ledger = AlphaLedger(config.evaluation.alpha, rounds)
        played = len(arena.evolution.tasks) * config.evolve.episodes
        judged = 2 * len(arena.bench.splits.val.tasks) * getattr(config.evaluation.gate, "draws", 1)
        watcher.see(arena.started(bank, rounds * (played + judged)))
        done: list[EvolutionRound] = []
        for _ in range(rounds):
            one = await _round(arena, bank_store, ledger)
            if one.verdict is not None:
                ledger = ledger.spend(one.verdict)
            done.append(one)
        skills = count_skills(bank_store.load()).headline
    minds = (config.models.target, teacher_of(config))
    return EvolveReport(str(bank), tuple(done), skills, any(map(is_stand_in, minds)))


def refuse_hopeless(config: RunConfig, val_tasks: int, decisions: int) -> None:
    """Refuse a gate that could not let any change through on so few tasks.

    Raises:
        ConfigError: It could not.
    """
    gate, alpha = config.evaluation.gate, config.evaluation.alpha
    if gate.kind not in ("paired", "sequential"):
        return
    needed = tasks_needed(alpha / decisions)
    if val_tasks < needed:
        raise ConfigError(
            f"no change of the bank could pass the {gate.kind} gate on {val_tasks} val tasks: "
            f"{decisions} decisions share alpha = {alpha:g}, which takes at least {needed}. Add "
            "val tasks, ask for fewer rounds, or use evaluation.gate.kind 'strict'"
        )


async def _round(arena: BankArena, bank_store: BankStore, ledger: AlphaLedger) -> EvolutionRound:
    config, bank = arena.config, bank_store.load()
    number = 1 + max((entry.step or 0 for entry in bank_store.log()), default=0)
    results = await _play(arena, bank, bank_store, number)
    count_use(arena.store, bank_store, config.env.success_threshold)
    arena.watcher.see(StageStarted("evolve", step=number))
    settings = config.evolve.settings(config.env.success_threshold, number)
    found = await evolve(
        EvolutionResults(arena.evolution, tuple(results)),
        bank,
        arena.teacher(f"evolve {number}"),
        settings,
        category_of,
        scope_of,
        [line for event in arena.store.events(EVOLVED) for line in event.payload["changes"]],
    )
    refuse_dead_teacher(found.faults, len(found.calls))
    candidate, report = found.candidate(bank, settings.caps, nearness(arena.embedder))
    action, verdict = await _judge(arena, (bank, candidate), bank_store, found, number, ledger)
    _keep(bank_store, found, (candidate, report), (action, verdict), number)
    one = _record(found, report, (action, verdict), bank, bank_store.load(), number)
    with arena.store.transaction(durable=True):
        arena.store.append_event(EVOLVED, one.to_dict())
    return one


async def _play(
    arena: BankArena, bank: Bank, bank_store: BankStore, number: int
) -> Sequence[EpisodeResult]:
    seed = arena.config.run.seed
    specs = [
        EpisodeSpec(
            task, derive_seed("evolution", seed, number, task.id, draw), draw, "evolution", number
        )
        for task in arena.evolution.tasks
        for draw in range(arena.config.evolve.episodes)
    ]
    arena.watcher.see(StageStarted("evolution split", step=number, episodes=len(specs)))
    results = await arena.bench.engine.run(specs, arena.source(bank, bank_store))
    refuse_no_score(results)
    return results


async def _judge(
    arena: BankArena,
    banks: tuple[Bank, Bank],
    bank_store: BankStore,
    found: Evolution,
    number: int,
    ledger: AlphaLedger,
) -> tuple[str, Verdict | None]:
    """Say what becomes of a proposal; the gate is asked only where there is one."""
    if not found.calls:
        return "none_weak", None
    if not found.changes:
        return "no_proposal", None
    if banks[0] is banks[1]:
        return "nothing_new", None
    verdict = await judge_banks(arena, banks, bank_store, number, ledger)
    return verdict.decision.value, verdict


async def judge_banks(
    arena: BankArena,
    banks: tuple[Bank, Bank],
    bank_store: BankStore,
    number: int,
    ledger: AlphaLedger,
) -> Verdict:
    """Have the gate judge a bank, the second of two, against the first, on val tasks."""
    config = arena.config
    gate, val = config.evaluation.gate, arena.bench.splits.val
    draws = getattr(gate, "draws", 1)
    arena.watcher.see(StageStarted("gate", step=number, episodes=2 * len(val.tasks) * draws))
    duel = bank_duel(
        arena.bench.engine,
        val,
        candidate_sources(*banks, lambda bank: arena.source(bank, bank_store)),
        # Each round meets fresh draws: a bank that was let in by some looks better there.
        Draws(config.run.seed, first=number * draws, step=number),
    )
    judge = gate_of(gate, config.env.success_threshold, config.run.seed)
    return await judge.judge(duel, ledger)


def _keep(
    bank_store: BankStore,
    found: Evolution,
    candidate: tuple[Bank, ChangeReport],
    judged: tuple[str, Verdict | None],
    number: int,
) -> None:
    action, verdict = judged
    said = verdict.to_dict() if verdict else None
    if action == "accept":
        reason = f"evolved in round {number}"
        bank_store.adopt(*candidate, reason=reason, verdict=said, step=number)
    elif verdict is not None:
        bank_store.reject(found.changes, reason=verdict.reason, verdict=said, step=number)
    else:
        # A round without a proposal is a round too: the next one meets other luck.
        notes = "; ".join(found.notes) or action.replace("_", " ")
        bank_store.commit([], reason=f"round {number}: {notes}", step=number)


def _record(
    found: Evolution,
    report: ChangeReport,
    judged: tuple[str, Verdict | None],
    bank: Bank,
    now: Bank,
    number: int,
) -> EvolutionRound:
    action, verdict = judged
    lines = []
    for outcome in report.outcomes:
        refused = outcome.decision is Decision.REFUSED
        fate = f"refused, {outcome.reason}" if refused else action
        if action == "accept" and not refused:
            fate = f"{outcome.decision} as {outcome.id}" if outcome.id else str(outcome.decision)
        lines.append(told_change(outcome.change, fate))
    return EvolutionRound(
        number=number,
        before=bank.version,
        version=now.version,
        action=action,
        success={one.category: (one.wins, one.episodes) for one in found.success},
        weakest=found.weakest,
        changes=tuple(lines),
        growth=growth_of(now),
        blocked=len(found.blocked),
        verdict=verdict,
        notes=found.notes,
    )


def growth_of(bank: Bank) -> dict[str, int]:
    """Count the active skills of a bank by category, lessons included; ``""`` is every one."""
    counts: dict[str, int] = {}
    for skill in bank.active:
        counts[skill.category] = counts.get(skill.category, 0) + 1
    return dict(sorted(counts.items()))

"""Evolution of the bank: failures of its own split, a teacher's changes, and the gate."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from skillwright.bank import (
    Bank,
    ChangeReport,
    Decision,
    category_of,
    near_in_text,
    scope_of,
)
from skillwright.bank.teaching.evolve import Evolution, evolve, told_change
from skillwright.bank.teaching.failures import EvolutionResults
from skillwright.bank.trial import bank_duel, candidate_sources
from skillwright.core import ConfigError, EpisodeResult, EpisodeSpec, Task
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import Draws, Verdict
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.rl.progress import BankEvolved
from skillwright.jobs.rl.state import EvolutionRecord, RlKind, RlState
from skillwright.jobs.rl.wiring import Workshop, stop_if_refused
from skillwright.policy import PolicyBackend
from skillwright.rollout import refuse_no_score
from skillwright.runs import VerdictRecord


async def evolve_bank(
    run: Workshop, state: RlState, policy: PolicyBackend, iteration: int
) -> RlState:
    """Play the evolution split, have the teacher change the bank, and ask the gate.

    Whatever comes of it is logged in the bank and in the run.

    Raises:
        EngineDown: No episode of the evolution split has a reward.
        ModelRefused: An endpoint refuses the key or the model.
    """
    section, split = run.config.evolve, run.tasks.evolution
    if section is None or split is None:
        raise ConfigError("evolve is null")
    before = state.version_after(iteration - 1)
    bank = run.bank_store.load(before)
    settings = section.settings(run.config.env.success_threshold, iteration)
    results = await _play(run, policy, bank, split.tasks, section.episodes, iteration)
    run.watcher.see(StageStarted("evolve", step=iteration))
    teacher = run.teacher(f"evolve {iteration}")
    found = await evolve(
        EvolutionResults(split, tuple(results)),
        bank,
        teacher,
        settings,
        category_of,
        scope_of,
        [line for one in state.evolutions.values() for line in one.earlier],
    )
    stop_if_refused(teacher)
    candidate, report = found.candidate(bank, section.caps, near_in_text)
    action, verdict = await _judge(run, state, policy, (bank, candidate), found, iteration)
    if verdict is not None:
        if action == "accept":
            _adopt(run, candidate, report, verdict, iteration)
        else:
            _reject(run, found, verdict, iteration)
    record = _record(found, report, action, verdict, bank, candidate, iteration)
    with run.store.transaction(durable=True):
        if verdict is not None:
            run.store.record_verdict(
                VerdictRecord(iteration, verdict.to_dict(), candidate.digest, "evolution")
            )
        state = write_down(run.store, state, RlKind.EVOLUTION, record.to_dict())
    run.watcher.see(BankEvolved(record))
    return state


async def _play(
    run: Workshop,
    policy: PolicyBackend,
    bank: Bank,
    tasks: Sequence[Task],
    episodes: int,
    iteration: int,
) -> list[EpisodeResult]:
    seed = run.config.run.seed
    specs = [
        EpisodeSpec(
            task,
            derive_seed("evolution", seed, iteration, task.id, draw),
            draw,
            "evolution",
            iteration,
        )
        for task in tasks
        for draw in range(episodes)
    ]
    run.watcher.see(StageStarted("evolution split", step=iteration, episodes=len(specs)))
    engine = run.measuring_engine(policy, run.config.evaluation.temperature)
    results = await engine.run(specs, run.teller.source(bank))
    refuse_no_score(results)
    return results


async def _judge(
    run: Workshop,
    state: RlState,
    policy: PolicyBackend,
    banks: tuple[Bank, Bank],
    found: Evolution,
    iteration: int,
) -> tuple[str, Verdict | None]:
    """Say what becomes of a proposal; the gate is asked only where there is one."""
    bank, candidate = banks
    if found.faults:
        return "teacher_failed", None
    if not found.calls:
        return "none_weak", None
    if not found.changes:
        return "no_proposal", None
    if candidate is bank:
        return "nothing_new", None
    gate = run.config.evaluation.gate
    episodes = gate.expected_rollouts(len(run.tasks.val))
    run.watcher.see(StageStarted("gate", step=iteration, episodes=episodes))
    accepts = sum(one.action == "accept" for one in state.evolutions.values())
    # As a bank was accepted on some draws it looks better there; the next one meets fresh ones.
    draws = Draws(run.config.run.seed, first=1 + accepts * gate.draws, step=iteration)
    engine = run.measuring_engine(policy, run.config.evaluation.temperature)
    sources = candidate_sources(bank, candidate, run.teller.source)
    duel = bank_duel(engine, run.tasks.splits.val, sources, draws)
    verdict = await gate.judge(duel, state.ledger, run.terms)
    return verdict.decision.value, verdict


def _adopt(
    run: Workshop, candidate: Bank, report: ChangeReport, verdict: Verdict, iteration: int
) -> None:
    if not _is_logged(run, iteration):
        reason = f"evolved after iteration {iteration}"
        said = verdict.to_dict()
        run.bank_store.adopt(candidate, report, reason=reason, verdict=said, step=iteration)


def _reject(run: Workshop, found: Evolution, verdict: Verdict, iteration: int) -> None:
    if not _is_logged(run, iteration):
        run.bank_store.reject(
            found.changes, reason=verdict.reason, verdict=verdict.to_dict(), step=iteration
        )


def _is_logged(run: Workshop, iteration: int) -> bool:
    """Tell whether a process that was killed right after had written it down."""
    return any(entry.step == iteration for entry in run.bank_store.log())


def _record(
    found: Evolution,
    report: ChangeReport,
    action: str,
    verdict: Verdict | None,
    bank: Bank,
    candidate: Bank,
    iteration: int,
) -> EvolutionRecord:
    is_in = action == "accept"
    now = candidate if is_in else bank
    outcomes = {id(one.change): one for one in report.outcomes}
    earlier = []
    for change in found.changes:
        outcome = outcomes[id(change)]
        refused = outcome.decision is Decision.REFUSED
        fate = f"refused, {outcome.reason}" if refused else action
        earlier.append(told_change(change, fate))
    facts: dict[str, Any] = {}
    if is_in:
        facts = {"added": report.added, "refined": report.refined, "retired": report.retired}
    faults = tuple(f"{one.call}: {one.failure.message}" for one in found.faults)
    return EvolutionRecord(
        iteration=iteration,
        version=now.version,
        before=bank.version,
        action=action,
        success={one.category: (one.wins, one.episodes) for one in found.success},
        weakest=found.weakest,
        growth=dict(sorted(Counter(skill.category for skill in now.active).items())),
        refused=len(report.refused) + len(found.blocked),
        verdict=verdict,
        earlier=tuple(earlier),
        notes=(*found.notes, *faults),
        **facts,
    )

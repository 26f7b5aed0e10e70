"""Evolution of the bank: failures of its own split, a teacher's changes, and the gate."""

from typing import Any

from skillwright.bank.measure import active_by_category
from skillwright.core import ConfigError
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.evolution_round import EvolutionLoop, PlayedRound
from skillwright.jobs.rl.progress import BankEvolved
from skillwright.jobs.rl.state import EvolutionRecord, RlKind, RlState
from skillwright.jobs.rl.wiring import Workshop, stop_if_refused
from skillwright.policy import PolicyBackend
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
    teacher, gate = run.teacher(f"evolve {iteration}"), run.config.evaluation.gate
    loop = EvolutionLoop(
        engine=lambda: run.measuring_engine(policy, run.config.evaluation.temperature),
        source=run.teller.source,
        tasks=split,
        val=run.tasks.splits.val,
        section=section,
        gate=gate,
        terms=run.terms,
        embedder=run.teller.embedder,
        teacher=lambda stage: teacher,
        watcher=run.watcher,
    )
    bank = run.bank_store.load(state.version_after(iteration - 1))
    earlier = [line for one in state.evolutions.values() for line in one.earlier]
    accepts = sum(one.action == "accept" for one in state.evolutions.values())
    first_draw = 1 + accepts * gate.draws
    played = await loop.take(iteration, bank, state.ledger, earlier, first_draw)
    stop_if_refused(teacher)
    _log_in_bank(run, played)
    record = _record(played)
    with run.store.transaction(durable=True):
        if played.verdict is not None:
            said, candidate = played.verdict.to_dict(), played.candidate.digest
            run.store.record_verdict(VerdictRecord(iteration, said, candidate, "evolution"))
        state = write_down(run.store, state, RlKind.EVOLUTION, record.to_dict())
    run.watcher.see(BankEvolved(record))
    return state


def _log_in_bank(run: Workshop, played: PlayedRound) -> None:
    verdict, number = played.verdict, played.number
    # A process that was killed right after may have written it down already.
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

"""Evolve a bank: rounds of play, proposal and gate; a command can be stopped and given again."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
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
from skillwright.config.bank_settings import teacher_of
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, EpisodeResult, EpisodeSpec
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import (
    AlphaLedger,
    Draws,
    Gate,
    ReleaseTest,
    Verdict,
    differing,
    release_draws,
    why_hopeless,
)
from skillwright.jobs.bank.arena import BankArena, bank_arena, nearness
from skillwright.jobs.launch.runs import known_secrets
from skillwright.jobs.parts.bank_use import count_use
from skillwright.jobs.parts.bank_work import bank_work
from skillwright.jobs.parts.opened import MakeModel
from skillwright.jobs.parts.progress import StageStarted, Watcher
from skillwright.jobs.train.wiring import terms_of
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
            **asdict(self),
            "success": {name: list(pair) for name, pair in self.success.items()},
            "changes": list(self.changes),
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
        release: What the test of all accepted rounds together said; ``None`` where nothing was
            accepted, or where each accepted round was released at once.
    """

    bank: str
    rounds: tuple[EvolutionRound, ...]
    skills: str
    is_scripted: bool
    release: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "bank": self.bank,
            "rounds": [one.to_dict() for one in self.rounds],
            "skills": self.skills,
            "scripted": self.is_scripted,
            "release": self.release.to_dict() if self.release else None,
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
        TeacherDown: The teacher gave nothing usable. Given again, the command repeats the rounds
            before it without asking anybody.
        UsageError: Something that the configuration names is missing or wrong.
    """
    gate, alpha = config.evaluation.gate, config.evaluation.alpha
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        bank_store = held.enter_context(BankStore.open(bank))
        arena = await held.enter_async_context(bank_arena(config, store, watcher, make))
        val = len(arena.bench.splits.val.tasks)
        refuse_hopeless(config, val, rounds)
        watcher.see(arena.started(bank, _expected_episodes(arena, rounds)))
        run = _Rounds(arena, bank_store, gate.ledger(alpha, rounds))
        for _ in range(rounds):
            await run.take()
        await run.end()
        skills = count_skills(bank_store.load()).headline
    minds = (config.models.target, teacher_of(config))
    return EvolveReport(
        str(bank), tuple(run.done), skills, any(map(is_stand_in, minds)), run.release
    )


def _expected_episodes(arena: BankArena, rounds: int) -> int:
    gate, val = arena.config.evaluation.gate, len(arena.bench.splits.val.tasks)
    played = len(arena.evolution.tasks) * arena.config.evolve.episodes
    at_the_end = gate.release.expected_rollouts(val) if gate.release else 0
    return rounds * (played + gate.expected_rollouts(val)) + at_the_end


def refuse_hopeless(config: RunConfig, val_tasks: int, decisions: int) -> None:
    """Refuse a gate that could not let any change through on so few tasks.

    Raises:
        ConfigError: It could not.
    """
    gate = config.evaluation.gate
    problem = why_hopeless(gate, gate.ledger(config.evaluation.alpha, decisions), val_tasks)
    if problem:
        raise ConfigError(
            f"no change of the bank could pass: {problem}. Add val tasks, ask for fewer rounds, or "
            "use evaluation.gate.kind 'strict'"
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A round that was played and judged, and is not written down yet."""

    number: int
    found: Evolution
    before: Bank
    candidate: Bank
    report: ChangeReport
    action: str
    verdict: Verdict | None

    @property
    def after(self) -> Bank:
        """The bank that the next round goes on from."""
        return self.candidate if self.action == "accept" else self.before

    def lines(self, *, is_kept: bool = True) -> tuple[str, ...]:
        """Say of each change what became of it; what is not kept was accepted, and not proven."""
        lines = []
        for outcome in self.report.outcomes:
            refused = outcome.decision is Decision.REFUSED
            fate = f"refused, {outcome.reason}" if refused else self.action
            if self.action == "accept" and not refused:
                fate = f"{outcome.decision} as {outcome.id}" if outcome.id else outcome.decision
                fate = fate if is_kept else "not proven"
            lines.append(told_change(outcome.change, fate))
        return tuple(lines)


class _Rounds:
    """The rounds of a command.

    Where every accept is a release, each round is written down when it is over. Where the gate
    leaves proof to a release test, rounds go on from one another in memory, and the bank's file
    changes once, at the end, if all of them together are proven. A command that was stopped before
    that is given again: what it asked and played is remembered, and comes to the same.
    """

    def __init__(self, arena: BankArena, bank_store: BankStore, ledger: AlphaLedger) -> None:
        self._arena = arena
        self._bank_store = bank_store
        self._ledger = ledger
        self._start = self._bank = bank_store.load()
        self._first = 1 + max((entry.step or 0 for entry in bank_store.log()), default=0)
        self._explored: list[_Outcome] = []
        self.done: list[EvolutionRound] = []
        self.release: Verdict | None = None

    async def take(self) -> None:
        """Play a round: the evolution split, the teacher's changes, and what the gate says."""
        arena, bank = self._arena, self._bank
        config = arena.config
        number = self._first + len(self.done) + len(self._explored)
        results = await _play(arena, bank, self._bank_store, number)
        arena.watcher.see(StageStarted("evolve", step=number))
        settings = config.evolve.settings(config.env.success_threshold, number)
        found = await evolve(
            EvolutionResults(arena.evolution, tuple(results)),
            bank,
            arena.teacher(f"evolve {number}"),
            settings,
            category_of,
            scope_of,
            self._earlier(number),
        )
        refuse_dead_teacher(found.faults, len(found.calls))
        candidate, report = found.candidate(bank, settings.caps, nearness(arena.embedder))
        action, verdict = await self._judge(found, candidate, number)
        outcome = _Outcome(number, found, bank, candidate, report, action, verdict)
        self._bank = outcome.after
        if config.evaluation.gate.release is not None:
            self._explored.append(outcome)
            return
        if verdict is not None:
            self._ledger = self._ledger.spend(verdict)
        with self._bank_store.together():
            self._write(outcome)
        self._bank = self._bank_store.load()

    async def end(self) -> None:
        """Test what was explored, and write all of it down."""
        arena, explored = self._arena, self._explored
        test = arena.config.evaluation.gate.release
        if test is None:
            return
        if self._bank is not self._start:
            draws = release_draws(arena.config.run.seed, self._first, explored[-1].number)
            sides = (self._start, self._bank)
            judged = differing(one.verdict for one in explored if one.verdict is not None)
            self.release = await judge_banks(
                arena, sides, self._bank_store, test, draws, self._ledger, judged
            )
        with self._bank_store.together():
            if self.release is not None and self.release.accepted:
                self._adopt(self.release)
            for outcome in explored:
                self._write(outcome)

    def _earlier(self, number: int) -> list[str]:
        """Return what rounds before this one proposed, and what became of it."""
        # A command that was killed while it wrote a round down repeats it as it was.
        end = self._first if self._arena.config.evaluation.gate.release else number
        events = self._arena.store.events(EVOLVED)
        before = [event for event in events if event.payload["number"] < end]
        written = [line for event in before for line in event.payload["changes"]]
        return [*written, *(line for outcome in self._explored for line in outcome.lines())]

    async def _judge(
        self, found: Evolution, candidate: Bank, number: int
    ) -> tuple[str, Verdict | None]:
        """Say what becomes of a proposal; the gate is asked only where there is one."""
        if not found.calls:
            return "none_weak", None
        if not found.changes:
            return "no_proposal", None
        if candidate is self._bank:
            return "nothing_new", None
        gate = self._arena.config.evaluation.gate
        # Until a change is accepted, the bank's own draws serve every round; a bank that was
        # accepted on some draws looks better on them, so the next round takes fresh ones.
        accepts = sum(one.action == "accept" for one in self._explored)
        first = number if gate.release is None else self._first + accepts
        draws = Draws(self._arena.config.run.seed, first * gate.draws, step=number)
        sides = (self._bank, candidate)
        verdict = await judge_banks(self._arena, sides, self._bank_store, gate, draws, self._ledger)
        return verdict.decision.value, verdict

    def _adopt(self, verdict: Verdict) -> None:
        taken = [one for one in self._explored if one.action == "accept"]
        outcomes = tuple(outcome for one in taken for outcome in one.report.outcomes)
        numbers = ", ".join(str(one.number) for one in taken)
        self._bank_store.adopt(
            replace(self._bank, version=self._start.version + 1),
            ChangeReport(outcomes),
            reason=f"evolved in {'rounds' if len(taken) > 1 else 'round'} {numbers}",
            verdict=verdict.to_dict(),
            step=taken[-1].number,
        )

    def _write(self, outcome: _Outcome) -> None:
        """Log a round in the bank and in the store of what was played.

        The caller holds a transaction of the bank, which ends after the store's: a round that the
        store has and the bank has not is repeated, and one that only the bank had would be lost.
        """
        arena, store, number = self._arena, self._bank_store, outcome.number
        count_use(arena.store, store, arena.config.env.success_threshold)
        is_in, test = outcome.action == "accept", self.release
        verdict = test if is_in and test is not None else outcome.verdict
        if verdict is not None and not verdict.accepted:
            changes, said = outcome.found.changes, verdict.to_dict()
            store.reject(changes, reason=verdict.reason, verdict=said, step=number)
        elif verdict is not None and test is None:
            reason, said = f"evolved in round {number}", verdict.to_dict()
            store.adopt(outcome.candidate, outcome.report, reason=reason, verdict=said, step=number)
        elif verdict is None:
            # A round without a proposal is a round too: the next one meets other luck.
            notes = "; ".join(outcome.found.notes) or outcome.action.replace("_", " ")
            store.commit([], reason=f"round {number}: {notes}", step=number)
        one = _record(outcome, store.load(), is_kept=test is None or test.accepted)
        if number not in [event.payload["number"] for event in arena.store.events(EVOLVED)]:
            with arena.store.transaction(durable=True):
                arena.store.append_event(EVOLVED, one.to_dict())
        self.done.append(one)


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


async def judge_banks(
    arena: BankArena,
    banks: tuple[Bank, Bank],
    bank_store: BankStore,
    judge: Gate | ReleaseTest,
    draws: Draws,
    ledger: AlphaLedger,
    judged: tuple[int, ...] = (),
) -> Verdict:
    """Have a bank, the second of two, judged against the first on val tasks."""
    config, val = arena.config, arena.bench.splits.val
    stage = "release test" if isinstance(judge, ReleaseTest) else "gate"
    expected = judge.expected_rollouts(len(val.tasks))
    arena.watcher.see(StageStarted(stage, step=draws.step or 0, episodes=expected))
    duel = bank_duel(
        arena.bench.engine,
        val,
        candidate_sources(*banks, lambda bank: arena.source(bank, bank_store)),
        draws,
    )
    return await judge.judge(duel, ledger, replace(terms_of(config), judged=judged))


def _record(outcome: _Outcome, now: Bank, *, is_kept: bool) -> EvolutionRound:
    found = outcome.found
    return EvolutionRound(
        number=outcome.number,
        before=outcome.before.version,
        version=now.version,
        action=outcome.action,
        success={one.category: (one.wins, one.episodes) for one in found.success},
        weakest=found.weakest,
        changes=outcome.lines(is_kept=is_kept),
        growth=growth_of(now),
        blocked=len(found.blocked),
        verdict=outcome.verdict,
        notes=found.notes,
    )


def growth_of(bank: Bank) -> dict[str, int]:
    """Count the active skills of a bank by category, lessons included; ``""`` is every one."""
    counts: dict[str, int] = {}
    for skill in bank.active:
        counts[skill.category] = counts.get(skill.category, 0) + 1
    return dict(sorted(counts.items()))
